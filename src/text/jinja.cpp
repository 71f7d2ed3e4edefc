#include "text/jinja.h"

#include "base/error.h"
#include "base/text.h"
#include "text/jinja_ast.h"
#include "text/jinja_evaluator.h"
#include "text/utf8.h"

namespace zt::text {

Jinja Jinja::parse(std::string source) {
  constexpr std::size_t kMostSource = 256u << 10;
  if (source.size() > kMostSource)
    throw Error(Blame::model,
                cat("the chat template has ", with_commas(std::int64_t(source.size())), " bytes; at most ",
                    with_commas(std::int64_t(kMostSource)), " are implemented"));
  if (const auto at = first_invalid_utf8(source))
    throw Error(Blame::model, cat("the chat template is not UTF-8 at byte ", *at));
  return Jinja(std::make_shared<const jinja::Template>(jinja::parse_template(source)));
}

std::string Jinja::render(const Variables& variables, const JinjaLimits& limits) const {
  return jinja::Evaluator(variables, limits).run(*template_);
}

}  // namespace zt::text
