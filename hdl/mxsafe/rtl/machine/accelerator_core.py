"""Everything of the machine behind its registers: memory, queues, engines, buffers.

Tested by `verif/rtl/machine/test_accelerator.py`.
"""

from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out, connect

from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import QUEUES
from mxsafe.rtl.arithmetic.bits import named, noted
from mxsafe.rtl.arithmetic.register_copy import RegisterCopy
from mxsafe.rtl.machine.axi import ADDRESS_BITS, Axi4, sliced_axi
from mxsafe.rtl.machine.buffers.operand_buffer import OperandBuffer, OperandBufferConfiguration
from mxsafe.rtl.machine.buffers.vector_buffer import VectorBuffer
from mxsafe.rtl.machine.control.access_events import access_events
from mxsafe.rtl.machine.control.descriptor_check import DescriptorCheckConfiguration
from mxsafe.rtl.machine.control.fetch import NUMBER_BITS, Fetch
from mxsafe.rtl.machine.control.queues import Queues
from mxsafe.rtl.machine.control.registers import accesses_layout
from mxsafe.rtl.machine.dma.axi_reader import AxiReader
from mxsafe.rtl.machine.dma.axi_writer import AxiWriter
from mxsafe.rtl.machine.dma.load_engine import LoadEngine
from mxsafe.rtl.machine.dma.store_engine import StoreEngine
from mxsafe.rtl.machine.gemm.gemm_engine import GemmEngine
from mxsafe.rtl.machine.part import PartConfiguration, differing_sizes
from mxsafe.rtl.machine.ports import ERROR_BITS
from mxsafe.rtl.machine.vector.vector_engine import VectorEngine
from mxsafe.rtl.stream.axi_stream import joined
from mxsafe.rtl.stream.register_slice import RegisterSlice, sliced
from mxsafe.rtl.timing import at, domain
from mxsafe.rtl.unit import Part, Ports, Unit, place

_FETCH, _LOAD = range(2)
"""Clients of the reader: a program must never wait for the words of its descriptors."""
_EVENTS = (
    "array_busy",
    "wait_load",
    "wait_vector",
    "wait_store",
    "words_read",
    "words_written",
)
"""Events that are counted."""
_SIDES = ("a", "w")


class AcceleratorCoreConfiguration(PartConfiguration, eq=False):
    """An `AcceleratorCore`.

    Parameters
    ----------
    machine : MachineConfiguration
        Its sizes.

    Raises
    ------
    ValueError
        If a beat towards memory is wider than a word, or an engine cannot be as the sizes say.
    """

    decided_by = tuple(each.name for each in fields(MachineConfiguration))
    shown_if_not_default = frozenset({"array_lanes", "vector_parts", "target", "counts"})

    def __post_init__(self) -> None:
        if self.machine.data_width > self.word_bits:
            raise ValueError(
                f"data_width must be at most {self.word_bits}, the bits of a word, "
                f"not {self.machine.data_width}"
            )
        _ = self.gemm, self.vector, self.vector_buffer  # which check what they are given

    @property
    def base(self) -> str:
        return f"{self.gemm.array.arithmetic.prefix}_accelerator_core"

    @property
    def differences(self) -> list[str]:
        # What the operands are is in the base.
        words = differing_sizes(self.decisive)
        return words if self.machine.scaled else words[1:]

    @property
    def latency(self) -> int:
        """Cycles from the start to the address of the program's first word."""
        waits = at(self, "start") + at(self.fetch, "wanted") + at(self, "runs") + at(self, "axi")
        return self.reader.latency + 1 + waits

    fetch = Part(Fetch, check=lambda core: DescriptorCheckConfiguration(machine=core.machine))
    reader = Part(AxiReader, data_bits=lambda core: core.machine.data_width)
    writer = Part(AxiWriter, data_bits=lambda core: core.machine.data_width)
    gemm = Part(GemmEngine)

    queues = Part(
        Queues,
        depth=lambda c: c.machine.queue_depth,
        products_under_way=lambda c: c.gemm.under_way,
    )

    load = Part(LoadEngine)
    store = Part(StoreEngine)
    vector = Part(VectorEngine)
    vector_buffer = Part(
        VectorBuffer,
        columns=lambda core: core.machine.vector_lanes,
        banks=lambda core: core.machine.vector_banks,
        bank_depth=lambda core: core.machine.bank_beats,
    )

    def operand_buffer(self, name: str) -> OperandBufferConfiguration:
        """Where operands are, or results (``out``), which leave in words."""
        is_out = name == "out"
        return self.part(
            OperandBufferConfiguration,
            word_bits=self.word_bits,
            beats=getattr(self.machine, f"{name}_beats"),
            words=self.machine.beat_words,
            scaled=self.machine.scaled,
            writers=1 if is_out else 2,
            reads_words=is_out and self.machine.scaled,
        )


class AcceleratorCore(Unit[AcceleratorCoreConfiguration]):
    """Fetch, queues, four engines and their buffers, and the masters that reach memory.

    Attributes
    ----------
    start : In(1)
        A program begins.
    program_base, program_length, base : In
        Its first byte, its descriptors, and what addresses in them are relative to.
    stop : In(1)
        All work is to end.
    quiet : Out(1)
        No transaction with memory is outstanding.
    is_done : Out(1)
        All descriptors are done.
    stopped, error, error_number : Out
        There has been an error, its code, the number of its descriptor.
    array_busy, wait_load, wait_vector, wait_store, words_read, words_written : Out(1)
        What is counted has happened in the cycle before.
    accesses : Out(struct)
        If they are counted: how many accesses of each kind there were in the cycle before.
    m_axi : Out(Axi4)
        Memory.
    """

    def ports(self) -> Ports:
        accesses = accesses_layout(self.config.machine)
        return {
            "start": In(1),
            "program_base": In(ADDRESS_BITS),
            "program_length": In(NUMBER_BITS),
            "base": In(ADDRESS_BITS),
            "stop": In(1),
            "quiet": Out(1),
            "is_done": Out(1),
            "stopped": Out(1),
            "error": Out(ERROR_BITS),
            "error_number": Out(NUMBER_BITS),
            **{name: Out(1) for name in _EVENTS},
            **({} if accesses is None else {"accesses": Out(accesses)}),
            "m_axi": Out(Axi4(self.config.machine.data_width)),
        }

    def fill(self, m: Module, platform: object) -> None:
        config = self.config
        parts: dict[str, Any] = {
            "fetch": Fetch(config.fetch),
            "queues": Queues(config.queues),
            "reader": AxiReader(config.reader),
            "writer": AxiWriter(config.writer),
            "load": LoadEngine(config.load),
            "gemm": GemmEngine(config.gemm),
            "vector": VectorEngine(config.vector),
            "store": StoreEngine(config.store),
            "vector_buffer": VectorBuffer(config.vector_buffer),
            **{
                f"{name}_buffer": OperandBuffer(config.operand_buffer(name))
                for name in (*_SIDES, "out")
            },
        }
        for name, unit in parts.items():
            place(m, platform, name, unit)
        self._connect_program(m, platform, parts)
        self._connect_memory(m, platform, parts)
        self._connect_buffers(m, parts)
        self._tell(m, parts)
        if config.machine.counts:
            counted = access_events(m, config.machine, parts)
            m.d.sync += [self.accesses[name].eq(value) for name, value in counted.items()]

    def _connect_program(self, m: Module, platform: object, parts: Mapping[str, Any]) -> None:
        """Fetch, queues, engines."""
        fetch, queues = parts["fetch"], parts["queues"]
        m.d.comb += [
            fetch.address.eq(self.program_base),
            fetch.length.eq(self.program_length),
            queues.start.eq(self.start),
            queues.descriptor_valid.eq(fetch.descriptor_valid),
            queues.descriptor.eq(fetch.descriptor),
            queues.number.eq(fetch.number),
            queues.ended.eq(
                fetch.ended & ~fetch.start if at(self.config, "start") else fetch.ended
            ),
            queues.fetch_error.eq(fetch.error),
            queues.stop.eq(self.stop),
            fetch.descriptor_ready.eq(queues.descriptor_ready),
        ]
        start = domain(m, at(self.config, "start"))
        start += fetch.start.eq(self.start)
        stops = self.stop | queues.stopped
        m.d.comb += fetch.stop.eq(self._near(m, platform, "stop_fetch", stops))
        for name in QUEUES:
            unit = parts[name]
            queue, engine = getattr(queues, name), getattr(unit, "engine", None)
            engine = unit.queue if engine is None else engine
            descriptor, valid, ready = queue.descriptor, queue.valid, engine.ready
            if name == "gemm" and at(self.config, "gemm descriptor"):
                # All of its counters begin in the cycle in which the engine is ready.
                unit = RegisterSlice(bits=len(Value.cast(descriptor)), halved=True)
                place(m, platform, "slice_gemm", unit)
                m.d.comb += [
                    unit.source.valid.eq(valid),
                    unit.source.payload.eq(Value.cast(descriptor)),
                    unit.sink.ready.eq(ready),
                ]
                descriptor, valid, ready = unit.sink.payload, unit.sink.valid, unit.source.ready
            elif name == "vector" and at(self.config, "vector descriptor"):
                valid = Signal(name="vector_is_due")
                noted(valid, "A cycle late: counters of the engine begin when a descriptor comes.")
                m.d.sync += valid.eq(queue.valid & ~ready)
            m.d.comb += [
                engine.valid.eq(valid),
                # Bits that no field has are at the top.
                Value.cast(engine.descriptor).eq(Value.cast(descriptor)),
                queue.ready.eq(ready),
            ]
            # All a cycle later for an FPGA, so that what they tell stays in order.
            m.d.comb += engine.stop.eq(self._near(m, platform, f"stop_{name}", queue.stop))
            when = domain(m, at(self.config, "done"))
            when += [queue.done.eq(engine.done), queue.error.eq(engine.error)]

    def _near(self, m: Module, platform: object, name: str, value: Value) -> Value:
        """At once, or for an FPGA a cycle later from a register that is kept for one unit."""
        if not at(self.config, "stop"):
            return value
        near = place(m, platform, name, RegisterCopy())
        m.d.comb += [near.en.eq(1), near.value.eq(value)]
        return near.copy

    def _connect_memory(self, m: Module, platform: object, parts: Mapping[str, Any]) -> None:
        """Both masters, and who uses them."""
        reader, writer, fetch = parts["reader"], parts["writer"], parts["fetch"]
        load, store = parts["load"], parts["store"]
        stops = self._stops = Signal(name="memory_stops")
        stopped = self.stop | parts["queues"].stopped
        m.d.comb += stops.eq(self._near(m, platform, "stop_memory", stopped))
        # A word has several beats.
        halved = self.config.reader.beats_of_word > 1
        through = partial(sliced, m, platform, halved=halved, registers=at(self.config, "words"))
        words = through("slice_words_read", reader.words)
        stored = through("slice_words_written", store.words)
        through = partial(sliced, m, platform, halved=True, registers=at(self.config, "runs"))
        runs = through("slice_run_written", store.run)
        word = words.payload
        is_load = named(m, "is_word_of_load", 1, word.client == _LOAD)
        base = self.base[self.config.machine.word_bytes.bit_length() - 1 :]
        for client, unit in ((_FETCH, fetch), (_LOAD, load)):
            run = getattr(reader, f"run_{client}")
            wanted = through(f"slice_run_{client}", unit.run)
            m.d.comb += [
                run.valid.eq(wanted.valid),
                run.payload.first.eq(wanted.payload.first),
                run.payload.words.eq(wanted.payload.words),
                wanted.ready.eq(run.ready),
            ]
        m.d.comb += [
            reader.stop.eq(stops),
            writer.stop.eq(stops),
            fetch.word_valid.eq(words.valid & ~is_load),
            fetch.word.data.eq(word.data),
            fetch.word.error.eq(word.error),
            load.words.valid.eq(words.valid & is_load),
            load.words.payload.data.eq(word.data),
            load.words.payload.error.eq(word.error),
            words.ready.eq(Mux(is_load, load.words.ready, 1)),
            load.base.eq(base),
            store.base.eq(base),
            *joined(runs, writer.run),
            *joined(stored, writer.words),
            store.written.eq(writer.done),
            store.write_error.eq(writer.error),
        ]
        for kind, master in (("read", reader), ("write", writer)):
            axi = master.m_axi
            if at(self.config, "axi"):
                axi = sliced_axi(m, platform, f"axi_{kind}", axi)
            for name, member in master.m_axi.signature.members.items():
                own, its = getattr(self.m_axi, name), getattr(axi, name)
                m.d.comb += own.eq(its) if member.flow == Out else its.eq(own)

    def _connect_buffers(self, m: Module, parts: Mapping[str, Any]) -> None:
        """Engines and buffers."""
        load, gemm, vector, store = (parts[name] for name in QUEUES)
        buffer = parts["vector_buffer"]
        connect(m, gemm.result, buffer.gemm)
        connect(m, vector.d, buffer.vector)
        connect(m, load.vector, buffer.load)
        connect(m, vector.x, buffer.x)
        connect(m, vector.y, buffer.y)
        connect(m, store.vector, buffer.store)
        for kind in self.config.kinds:
            for side in _SIDES:
                operands = parts[f"{side}_buffer"]
                connect(m, getattr(load, f"{side}_{kind}"), getattr(operands, f"load_{kind}"))
                connect(m, getattr(gemm, f"{side}_{kind}"), getattr(operands, kind))
            for name in (*_SIDES, "out"):
                operands = parts[f"{name}_buffer"]
                into = getattr(operands, f"vector_{kind}")
                if self.config.machine.conversions:
                    connect(m, getattr(vector, f"{name}_{kind}"), into)
            connect(m, getattr(store, f"out_{kind}"), getattr(parts["out_buffer"], kind))

    def _tell(self, m: Module, parts: Mapping[str, Any]) -> None:
        """Drive the status that the registers report."""
        queues, load, store = parts["queues"], parts["load"], parts["store"]
        m.d.comb += [
            self.is_done.eq(queues.is_done),
            self.stopped.eq(queues.stopped),
            self.error.eq(queues.error),
            self.error_number.eq(queues.error_number),
        ]
        idle = parts["reader"].idle & parts["writer"].idle
        if at(self.config, "quiet"):
            noted(self.quiet, "What is idle while it is to stop stays so: a register may say it.")
            m.d.sync += self.quiet.eq(idle & self._stops)
        else:
            m.d.comb += self.quiet.eq(idle)
        events = noted(
            Signal(len(_EVENTS), name="events"),
            "From registers, for counters are long: a descriptor is done cycles after these.",
        )
        m.d.sync += events.eq(
            Cat(
                parts["gemm"].array_busy,
                queues.lacks,
                load.words.valid & load.words.ready,
                store.words.valid & store.words.ready,
            )
        )
        m.d.comb += Cat(getattr(self, name) for name in _EVENTS).eq(events)
