// Where names live. Follows Jinja's compiler, whose choices templates can see.
// Source: Jinja 3.1, src/jinja2/idtracking.py.
#include <set>

#include "text/jinja_ast.h"

namespace zt::text::jinja {
namespace {

using Names = std::set<std::string>;

class FrameNames {
 public:
  explicit FrameNames(const Names& outer) : outer_(outer) {}

  void load(const std::string& name) {
    if (!outer_.contains(name)) known_.insert(name);
  }
  void store(const std::string& name) {
    stored_.insert(name);
    if (known_.insert(name).second && !outer_.contains(name)) undefined_.insert(name);
  }
  void parameter(const std::string& name) { known_.insert(name); }

  void visit(const Expr& expr);
  void visit_target(const Expr& target);
  void visit(const std::vector<Stmt>& body) {
    for (const Stmt& stmt : body) visit(stmt);
  }

  Names known() const;
  std::vector<std::string> undefined() const { return {undefined_.begin(), undefined_.end()}; }

 private:
  void visit(const Stmt& stmt);
  void visit_branches(const std::vector<Branch>& branches);

  const Names& outer_;
  Names known_, stored_, undefined_;
};

Names FrameNames::known() const {
  Names all = outer_;
  all.insert(known_.begin(), known_.end());
  return all;
}

void FrameNames::visit(const Expr& expr) {
  if (expr.kind == Expr::Kind::name) load(expr.name);
  for (const ExprPtr& operand : expr.operands)
    if (operand != nullptr) visit(*operand);
  for (const ExprPtr& argument : expr.arguments) visit(*argument);
  for (const auto& [name, argument] : expr.named_arguments) visit(*argument);
}

void FrameNames::visit_target(const Expr& target) {
  if (target.kind == Expr::Kind::name) return store(target.name);
  if (target.kind == Expr::Kind::attribute) return load(target.operands[0]->name);
  for (const ExprPtr& part : target.operands) visit_target(*part);
}

// Bodies with frames of their own are not part of this one.
void FrameNames::visit(const Stmt& stmt) {
  if (stmt.kind == Stmt::Kind::if_) return visit_branches(stmt.branches);
  if (stmt.kind == Stmt::Kind::macro) return store(stmt.text);
  if (stmt.value != nullptr) visit(*stmt.value);
  if (stmt.kind == Stmt::Kind::set || stmt.kind == Stmt::Kind::set_block) visit_target(*stmt.target);
}

// A name that only some branches set is looked up outside until then.
void FrameNames::visit_branches(const std::vector<Branch>& branches) {
  // `elif` conditions belong to their own branch, as `elif` is an `if` inside it.
  visit(*branches[0].condition);
  const FrameNames before = *this;
  for (std::size_t i = 0; i < branches.size(); ++i) {
    FrameNames branch(outer_);
    branch.known_ = before.known_;
    branch.stored_ = before.stored_;
    branch.undefined_ = before.undefined_;
    if (i > 0 && branches[i].condition != nullptr) branch.visit(*branches[i].condition);
    branch.visit(branches[i].body);
    known_.insert(branch.known_.begin(), branch.known_.end());
    stored_.insert(branch.stored_.begin(), branch.stored_.end());
  }
}

void resolve(Frame* frame, const Names& outer, const Stmt* owner);

void resolve_inner(std::vector<Stmt>* body, const Names& outer) {
  for (Stmt& stmt : *body) {
    for (Branch& branch : stmt.branches) resolve_inner(&branch.body, outer);
    if (stmt.kind >= Stmt::Kind::for_) {
      resolve(&stmt.frame, outer, &stmt);
      resolve(&stmt.otherwise, outer, nullptr);
    }
  }
}

void resolve(Frame* frame, const Names& outer, const Stmt* owner) {
  FrameNames names(outer);
  if (owner != nullptr && owner->kind == Stmt::Kind::for_) {
    names.parameter("loop");
    FrameNames parts(outer);
    parts.visit_target(*owner->target);
    for (const std::string& name : parts.undefined()) names.parameter(name);
  }
  if (owner != nullptr) {
    for (const Parameter& parameter : owner->parameters) names.parameter(parameter.name);
    for (const Parameter& parameter : owner->parameters)
      if (parameter.fallback != nullptr) names.visit(*parameter.fallback);
  }
  names.visit(frame->body);
  frame->undefined_at_start = names.undefined();
  resolve_inner(&frame->body, names.known());
}

}  // namespace

void resolve_names(Template* parsed) { resolve(&parsed->frame, {}, nullptr); }

}  // namespace zt::text::jinja
