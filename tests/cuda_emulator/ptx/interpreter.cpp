#include "interpreter.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "base/text.h"
#include "block.h"
#include "decoder.h"
#include "module_text.h"

namespace zt::emulator::ptx {

Counters& Counters::operator+=(const Counters& o) {
  warp_instructions += o.warp_instructions;
  mma += o.mma;
  bank_extra += o.bank_extra;
  sectors += o.sectors;
  sectors_least += o.sectors_least;
  return *this;
}

struct Module::Impl {
  ModuleText text;
  GlobalMemory& memory;
  std::map<std::string, std::uint64_t> variables;  // addresses
  std::map<std::string, Program> programs;

  Impl(std::string_view source, GlobalMemory& m) : text(read_module(source)), memory(m) {
    for (const Variable& v : text.variables) variables[v.name] = memory.place(v);
  }

  const KernelText& kernel(const std::string& name) const {
    const auto it = text.kernels.find(name);
    if (it == text.kernels.end()) throw Error(Blame::bug, cat("the module has no kernel ", name));
    return it->second;
  }

  const Program& program(const std::string& name) {
    const auto it = programs.find(name);
    if (it != programs.end()) return it->second;
    return programs[name] = decode(kernel(name), text.files, variables);
  }
};

Module::Module(std::string_view text, GlobalMemory& memory) : impl_(std::make_unique<Impl>(text, memory)) {}
Module::~Module() = default;
Module::Module(Module&&) noexcept = default;
Module& Module::operator=(Module&&) noexcept = default;

std::vector<std::string> Module::kernels() const {
  std::vector<std::string> names;
  for (const auto& [name, kernel] : impl_->text.kernels) names.push_back(name);
  return names;
}

const KernelInfo& Module::info(const std::string& kernel) const { return impl_->kernel(kernel).info; }

namespace {

void require_sensible(const Launch& launch, const KernelInfo& info) {
  const std::uint64_t threads = launch.block.count();
  if (threads == 0 || threads > 1024 || launch.grid.count() == 0)
    throw Error(Blame::bug, cat(info.name, ": ", launch.grid.count(), " blocks of ", threads, " threads"));
  if (info.max_threads != 0 && threads > info.max_threads)
    throw Error(Blame::bug,
                cat(info.name, ": ", threads, " threads a block, it was compiled for ", info.max_threads));
  if (launch.parameters.size() < info.parameter_bytes)
    throw Error(Blame::bug, cat(info.name, ": ", launch.parameters.size(), " bytes of parameters instead of ",
                                info.parameter_bytes));
}

// Parameters go into the launch's constants, each in all lanes.
void fill_constants(const Program& program, LaunchState* state) {
  state->constants = program.constants;
  const auto spread = [&](std::uint32_t at, std::uint32_t width, std::uint64_t bits) {
    for (std::uint32_t l = 0; l < kLanes; ++l) std::memcpy(&state->constants[at + l * width], &bits, width);
  };
  for (const Program::ParameterSlot& slot : program.parameter_slots) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &state->parameters[slot.parameter_offset], slot.bytes);
    if (slot.is_signed && slot.bytes < 8) {
      const int unused = 64 - slot.bytes * 8;
      bits = std::uint64_t(std::int64_t(bits << unused) >> unused);
    }
    spread(slot.constant_offset, slot.width, bits);
  }
  for (std::size_t i = 0; i < program.parameter_address_slots.size(); ++i) {
    spread(program.parameter_address_slots[i], 8,
           reinterpret_cast<std::uint64_t>(state->parameters.data()) +
               std::uint64_t(program.parameter_address_offsets[i]));
  }
}

}  // namespace

Counters Module::run(const Launch& launch) {
  const KernelText& kernel = impl_->kernel(launch.kernel);
  require_sensible(launch, kernel.info);
  const Program& program = impl_->program(launch.kernel);
  LaunchState state{program,
                    kernel.info,
                    impl_->text.files,
                    impl_->memory,
                    launch,
                    Chance(launch.seed),
                    {},
                    {},
                    {},
                    {},
                    {},
                    {},
                    {},
                    false};
  state.parameters.assign(launch.parameters.begin(), launch.parameters.end());
  state.parameters.resize(kernel.info.parameter_bytes + 8);
  fill_constants(program, &state);

  // The shared buffer starts where the widest swizzle repeats.
  const std::uint32_t bytes = program.dynamic_shared + launch.dynamic_shared_bytes;
  std::vector<std::uint8_t> storage(bytes + 2048);
  std::uint8_t* shared = storage.data() + (1024 - reinterpret_cast<std::uintptr_t>(storage.data()) % 1024);
  Block block(state, shared, bytes);

  std::vector<std::uint32_t> order(launch.grid.count());
  std::iota(order.begin(), order.end(), 0u);
  if (launch.order == Order::reverse) std::reverse(order.begin(), order.end());
  if (launch.order == Order::random) {
    for (std::size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[state.chance.below(std::uint32_t(i))]);
  }
  for (const std::uint32_t number : order) {
    if (state.abandoned) break;
    block.run(number);
  }
  return state.counters;
}

}  // namespace zt::emulator::ptx
