#include "schedule/op.h"

#include "base/text.h"

namespace zt::schedule {

bool permanent(SlotKind kind) {
  using enum SlotKind;
  switch (kind) {
    case X:
    case S:
    case D:
    case W:
    case G: return false;
    case P:
    case R:
    case O:
    case loss:
    case norm:
    case batch:
    case workspace: return true;
  }
  return true;
}

const char* name(OpKind kind) {
  using enum OpKind;
  switch (kind) {
    case gather: return "gather";
    case forward: return "forward";
    case recompute: return "recompute";
    case head: return "head";
    case backward: return "backward";
    case accumulate: return "accumulate";
    case reduce: return "reduce";
    case norm: return "norm";
    case update: return "update";
  }
  return "?";
}

const char* name(Lane lane) {
  switch (lane) {
    case Lane::compute: return "compute";
    case Lane::comm: return "comm";
    case Lane::copy: return "copy";
  }
  return "?";
}

const char* name(SlotKind kind) {
  using enum SlotKind;
  switch (kind) {
    case X: return "X";
    case S: return "S";
    case D: return "D";
    case W: return "W";
    case G: return "G";
    case P: return "P";
    case R: return "R";
    case O: return "O";
    case loss: return "loss";
    case norm: return "norm";
    case batch: return "batch";
    case workspace: return "workspace";
  }
  return "?";
}

std::string name(const Slot& slot) {
  std::string text = name(slot.kind);
  if (slot.block >= 0) text += cat(".", slot.block);
  if (slot.micro >= 0) text += cat("@", slot.micro);
  text.append(std::size_t(slot.generation), '\'');
  return text;
}

std::string name(const Op& op) {
  std::string text = name(op.kind);
  if (op.block >= 0) text += cat(" b", op.block);
  if (op.micro >= 0) text += cat(" m", op.micro);
  return text;
}

}  // namespace zt::schedule
