// A module that Verilator compiles by itself, evaluated only where something can change. The design
// calls such a module some six times a clock. Its state can change at a rising edge, its outputs
// there and where an input changes; and when its inputs stay and a rising edge has left all its
// state as it was, the next one does too: it sleeps until an input changes.
#ifndef MXSAFE_SLEEPER_H
#define MXSAFE_SLEEPER_H

#include <cstring>
#include <initializer_list>
#include <tuple>
#include <utility>

template <typename Module, typename Symbols, typename Inputs>
class Sleeper {
public:
    // The inputs are those of the module, without its clock.
    void eval(Module& module, const Inputs& inputs) {
        // The clock as the module has seen it last: by this it finds an edge.
        auto& seen = module.rootp->__Vtrigprevexpr___TOP__clk__0;
        const bool rises = module.clk && !seen;
        if (differ(inputs, std::make_index_sequence<std::tuple_size<Inputs>::value>{})) {
            m_still = m_asleep = false;
            if (!rises) module.Module::eval();
        }
        if (rises && !m_asleep) edge(module);
        seen = module.clk;
    }

private:
    void edge(Module& module) {
        if (!m_still) {
            module.Module::eval();
            m_still = true;  // until an input changes
            return;
        }
        static thread_local char before[sizeof(Symbols)];
        const void* const state = module.rootp->vlSymsp;
        std::memcpy(before, state, sizeof(Symbols));
        module.Module::eval();
        module.rootp->__Vtrigprevexpr___TOP__clk__0 = 0;  // as it was
        m_asleep = !std::memcmp(before, state, sizeof(Symbols));
    }

    // Whether any input is another one than at the last call, or there was none.
    template <size_t... Number>
    bool differ(const Inputs& inputs, std::index_sequence<Number...>) {
        bool found = !m_called;
        m_called = true;
        (void)std::initializer_list<int>{
            (found |= update(std::get<Number>(m_last), std::get<Number>(inputs)), 0)...};
        return found;
    }

    template <typename Input>
    static bool update(Input& last, const Input& input) {
        if (!std::memcmp(&last, &input, sizeof(Input))) return false;
        last = input;
        return true;
    }

    template <typename... Input>
    static std::tuple<Input...> values(const std::tuple<Input&...>&);

    decltype(values(std::declval<Inputs>())) m_last;
    bool m_called = false, m_still = false, m_asleep = false;
};

#endif
