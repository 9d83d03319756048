"""Shared values of a row: its mean, and the reciprocal of its standard deviation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value, signed
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import any_of, gated_or, kept, named, truncated, update
from mxsafe.rtl.arithmetic.carry_save import carry_save
from mxsafe.rtl.arithmetic.float_steps import (
    EXPONENT_BITS,
    LARGEST_EXPONENT,
    MANTISSA_BITS,
    normalise,
    pack_special,
)
from mxsafe.rtl.timing import held
from mxsafe.rtl.unit import Configuration, Ports, Unit
from mxsafe.rtl.vector.row_lane import BASE_BITS, EARLY_BITS
from mxsafe.tables import Grade
from mxsafe.tables.normalise import MOST_VALUES, WIDTHS, NormaliseWidths
from mxsafe.validation import Alike, AlikePower, PositiveInteger

_BIAS = 127
_FULL = MANTISSA_BITS + 1
_PARTS = 3
"""Parts of a sum; the carry of each goes on to the next one in the cycle that follows."""
_FEW_LANES = 4
"""Lanes of a row that one register of a mean drives."""
_FLAGS = 2
"""Bits beside the base of a row: `constant` and `not_finite`."""
_LEADING = MANTISSA_BITS + 1
"""Where the first bit of a sum is at least, once it is a number: there is a bit to round by."""


_PHASES = ("divide", "scale", "widen", "invert", "root", "keep")
"""Steps of a complete sum: divide by the number of values; give a variance
its power of 4, add `epsilon`, invert it, and take the square root; keep what there is."""
_Phases = Mapping[str, Signal]


class NormaliseRowConfiguration(Configuration):
    """A `NormaliseRow`.

    Parameters
    ----------
    centre : bool
        Whether there is a mean.
    rows : int
        Rows side by side.
    span : int
        Values of a row in a beat, a power of two.
    depth : int
        Beats of a row, at most.
    statistics : bool
        Whether mean and reciprocal deviation are given as numbers too.
    optional : bool
        With `centre`: whether an input says if there is a mean.
    sums : bool
        With `centre` and a span of 1: whether an input says that the sum of a row is all there is.
    shared : bool
        Whether something else can have sums added up.
    sweeps : bool
        Whether rows can be given up before they end.
    grade : {"compact", "fine"}
        How exact results are, see `mxsafe.model.normalisation.normalise`.
    """

    centre: bool = True
    rows: Alike = 1
    span: AlikePower = 16
    depth: PositiveInteger = 512
    statistics: bool = False
    optional: bool = False
    sums: bool = False
    shared: bool = False
    sweeps: bool = False
    grade: Grade = "compact"

    def __post_init__(self) -> None:
        if self.optional and not self.centre:
            raise ValueError("centre must be set with optional")
        if self.sums and not (self.centre and self.span == 1):
            raise ValueError("centre must be set, and span be 1, with sums")

    @property
    def widths(self) -> NormaliseWidths:
        """Widths of the grade."""
        return WIDTHS[self.grade]

    @property
    def latency(self) -> int:
        """Cycles from the last values of a pass to `done`, at most."""
        return self.settling + self.rows * (self.most_steps + 2 * self.widths.root + 3) + 1

    @property
    def most_steps(self) -> int:
        """Steps of two bits of a division, at most."""
        return self.widths.most_steps(max(MOST_VALUES, self.depth * self.span))

    @property
    def mean_latency(self) -> int:
        """Cycles from the last values of a pass for means to `done`."""
        return self.settling + self.rows * (self.sum_bits // 2 + 1) + 1

    @property
    def default_latency(self) -> int:
        """The same for deviations, of rows whose largest value is two to four of them."""
        # The variance is then from a quarter to a sixteenth of the largest square.
        spare = self.sum_bits - self.widths.square + 3
        steps = -(-(spare + self.widths.variance - 3) // 2)
        return self.settling + self.rows * (steps + 2 * self.widths.root + 3) + 1

    @property
    def settling(self) -> int:
        """Cycles until the carries of a sum have gone where they belong."""
        # Sums of sweeps are longer.
        return _PARTS - 1 + self.sweeps

    @property
    def stored_bits(self) -> int:
        """Bits of a row that can be kept for something else."""
        mean = self.widths.window + 1 if self.centre else 0
        return self.widths.reciprocal + BASE_BITS + _FLAGS + mean

    @property
    def divisor_bits(self) -> int:
        """Bits of a number of beats, with what the span has beyond a power of four, or more."""
        return max(self.widths.variance, (self.depth << self.span_bits % 2).bit_length())

    @property
    def power_offset(self) -> int:
        """What the power of a variance is above the exponent field of the largest value."""
        return self.sum_bits // 2 - self.power_bits // 2 - self.widths.power_offset

    @property
    def of_row(self) -> data.StructLayout:
        """Results of a row, in float32."""
        mean = {"mean": 32} if self.centre else {}
        return data.StructLayout({**mean, "reciprocal_deviation": 32})

    @property
    def copies(self) -> int:
        """How often the mean of a row is there: two registers drive more than a few lanes."""
        return 2 if self.span > _FEW_LANES else 1

    @property
    def span_bits(self) -> int:
        """Binary logarithm of the span."""
        return self.span.bit_length() - 1

    @property
    def power_bits(self) -> int:
        """As much of it as is an even number: that goes to exponents."""
        return self.span_bits - self.span_bits % 2

    @property
    def addend_bits(self) -> int:
        """Bits of what is added in a cycle."""
        return self.widths.square + self.span_bits

    @property
    def addends(self) -> data.ArrayLayout:
        """Layout of what is added in a cycle."""
        return data.ArrayLayout(self.addend_bits, 1 if self.span == 1 else 2)

    @property
    def sum_bits(self) -> int:
        """Bits of the sum of a row, an even number."""
        bits = self.addend_bits + (self.depth - 1).bit_length()
        return bits + bits % 2


class NormaliseRow(Unit[NormaliseRowConfiguration]):
    """Sums of rows to their means, and to the reciprocals of their standard deviations.

    Rows side by side share one divider, which takes their sums one after the other. It finds two
    bits of a quotient a cycle; the reciprocal root of a variance v is the root of ``1 / v``, from
    a cycle a bit of the same divider and of a square root, digit by digit. So this unit costs a
    twelfth of 16 lanes; a table and its polynomial would take 31 cycles less a row, and two thirds
    more area.

    Attributes
    ----------
    centred : In(1)
        If a mean is `optional`: a pass for it comes first. Steady.
    begins : In(1)
        With `sweeps`: what is left of other rows is forgotten. Not while anything is being found.
    summing : In(1)
        With `sums`: a pass adds up values as they are, and their sum is the result. Steady.
    other : In(1)
        If it is `shared`: sums are added up for something else, and that is all. They are `totals`
        after `settling` cycles. Steady.
    clear : In(1)
        As well: sums become 0.
    totals : Out(array)
        As well.
    stored, stores : In(stored_bits), In(rows)
        As well: bits to keep, for which of the rows.
    held : Out(array)
        As well: what is kept of each row. It stands where what is known of a row would.
    negative : In(rows)
        With `sums`, beside addends: that of the row is the one's complement of a magnitude.
    add : In(1)
        There are addends.
    addends : In(array)
        Of each row two numbers, or one if the span is 1: sums of what lanes give, of values in the
        pass for the mean, else of squares.
    last : In(1)
        They are the last of their pass: what follows comes after `done`.
    largest : In(array)
        Exponent field of each row's largest value, 1 for subnormals; steady until `done`.
    epsilon : In(32)
        A binary32 that is added to variances; steady. A subnormal counts as 0, its sign as none.
    overlong : In(1)
        Rows were cut: results have to be NaN.
    leaves : In(1)
        The last values of the last pass are taken; if there is a mean.
    done : Out(1)
        What the pass was for is there from the next cycle on.
    mean : Out(array)
        Rounded down, in units of the window; with the offset of the values. If `centred` is not
        set it is 0. From the cycle after `leaves` to the next mean its lower bits are 0, which
        `RowLane` wants early. Each mean is there `copies` times, side by side.
    sums : Out(array)
        With `sums`, of each row its sum, a binary32: from `done` as long as a mean would be there.
    reciprocal, base, constant, not_finite : Out(array)
        As `RowLane` wants them; from a mean to the deviation `reciprocal`
        is 0.
    statistics : Out(array)
        Of each row ``mean``, if there is one, and ``reciprocal_deviation`` as numbers, with
        `statistics`; from `done` of a deviation to that of the next mean, or deviation.
    """

    synthesised_once = True

    def ports(self) -> Ports:
        config = self.config

        def each(shape: Shape | int) -> data.ArrayLayout:
            return data.ArrayLayout(shape, config.rows)

        means = data.ArrayLayout(config.widths.window + 1, config.rows * config.copies)
        return {
            **({"centred": In(1)} if config.optional else {}),
            **({"begins": In(1)} if config.sweeps else {}),
            **(
                {"summing": In(1), "negative": In(config.rows), "sums": Out(each(32))}
                if config.sums
                else {}
            ),
            **(
                {
                    "other": In(1),
                    "clear": In(1),
                    "totals": Out(each(config.sum_bits)),
                    "stored": In(config.stored_bits),
                    "stores": In(config.rows),
                    "held": Out(each(config.stored_bits)),
                }
                if config.shared
                else {}
            ),
            "add": In(1),
            "addends": In(each(config.addends)),
            "last": In(1),
            "largest": In(each(EXPONENT_BITS)),
            "epsilon": In(32),
            "overlong": In(1),
            "done": Out(1),
            **({"leaves": In(1), "mean": Out(means)} if config.centre else {}),
            "reciprocal": Out(each(config.widths.reciprocal)),
            "base": Out(each(signed(BASE_BITS))),
            "constant": Out(config.rows),
            "not_finite": Out(config.rows),
            **(
                {"statistics": Out(data.ArrayLayout(config.of_row, config.rows))}
                if config.statistics
                else {}
            ),
        }

    def fill(self, m: Module, platform: object) -> None:
        config, widths = self.config, self.config.widths
        phases = {name: Signal(name=f"is_{name}") for name in _PHASES}  # one of them at most
        row = Signal(range(max(config.rows, 2)), name="row")
        is_row = [
            named(m, f"is_row_{index}", 1, row == index if index else ~row.any())
            for index in range(config.rows)
        ]
        # Which pass it is: a mean comes before a deviation.
        deviates = after_mean = Signal(name="is_deviation", init=not config.centre)
        if config.optional:
            deviates = named(m, "is_deviation_now", 1, after_mean | ~self.centred)
        steps = Signal(6, name="steps")
        # A mean, what a root is taken of, or a sum up to where it rounds.
        bits = max(widths.window + 1 + config.power_bits, 2 * widths.root)
        quotient = Signal(bits, name="quotient")
        power = Signal(signed(BASE_BITS), name="power", reset_less=True)
        # Of sums the number of beats, with what the span has beyond a power of four; then a
        # variance.
        divisor = Signal(config.divisor_bits, name="divisor", reset_less=True)
        last_step = named(m, "is_last_step", 1, steps == widths.root - 1)
        settles = Signal(config.settling, name="settles")
        other: Value = self.other if config.shared else Const(0, 1)
        m.d.sync += settles.eq(Cat(self.add & self.last & ~other, settles[:-1]))
        top = self._sums(m, phases, is_row, divisor, settles)
        found_sum = _Sum(m, self, phases["divide"], top, quotient, power, steps)
        root = self._digits(m, phases, top, divisor, last_step, quotient, found_sum)
        self._variance(m, phases, quotient, steps, is_row, divisor, power, found_sum)
        enough = named(m, "has_enough", 1, quotient[widths.variance - 4 :].any())
        most = Mux(deviates, config.most_steps, config.sum_bits // 2)
        at_most = named(m, "is_at_most", 1, steps == most - 1)
        divided = at_most | (deviates & enough)
        if config.sums:
            divided = Mux(self.summing, found_sum.ends, divided)
        divided = named(m, "is_divided", 1, divided)
        last_row = named(m, "is_last_row", 1, is_row[-1])
        divide, _, _, invert, takes_root, keep = phases.values()
        quotient_there = named(m, "quotient_is_there", 1, divide & divided)
        ended = {
            "divide": quotient_there & deviates,
            "scale": phases["scale"],
            "widen": phases["widen"],
            "invert": invert & last_step,
            "root": takes_root & last_step,
            "keep": keep & ~last_row,
        }
        ends = named(m, "phase_ends", len(ended), Cat(*ended.values()))
        starts = Cat(ends[-1] | settles[-1], ends[:-1])
        leaves = Cat(quotient_there, ends[1:-1], Const(1))
        enters = starts | (quotient_there & ~deviates) << len(_PHASES) - 1
        current = Cat(*phases.values())
        m.d.sync += [
            current.eq(enters | (current & ~leaves)),
            steps.eq(Mux(ends.any() | ~current.any(), 0, steps + 1)),
        ]
        m.d.comb += self.done.eq(phases["keep"] & last_row)
        update(m, row, (phases["keep"], Mux(last_row, 0, row + 1)))
        if config.centre:
            update(m, after_mean, (self.done & ~found_sum.on, ~deviates))
            if config.sweeps:
                update(m, after_mean, (self.begins, 0))
        self._keep(m, keep, deviates, is_row, (quotient, root, power, divisor), found_sum)

    def _keep(
        self,
        m: Module,
        keep: Value,
        deviates: Value,
        is_row: list[Signal],
        found: tuple[Signal, Signal, Signal, Signal],
        found_sum: "_Sum",
    ) -> None:
        """Keep what has been found of a row: a mean, a deviation, or a sum.

        Parameters
        ----------
        m : amaranth.hdl.Module
        keep : Value
            It is there.
        deviates : Value
            It is a deviation.
        is_row : list of Signal
            Which row it is.
        found : tuple of Signal
            Quotient, root, power, variance.
        found_sum : _Sum
        """
        config, widths = self.config, self.config.widths
        quotient, root, power, variance = found
        shift = config.power_bits
        mean = quotient[shift : shift + widths.window + 1]
        largest = _of_row(m, "largest_here", is_row, self.largest)
        not_finite = named(m, "is_not_finite", 1, self.overlong | largest.all())
        # What is cut off makes a root too small, and much else too: so it is rounded up.
        full = named(m, "root_is_full", 1, root.all())
        rounded = truncated(m, "root_rounded", widths.root, root + ~full)
        reciprocal = rounded[widths.root - widths.reciprocal :]
        base = truncated(m, "base_of_row", BASE_BITS, largest - power - (not config.centre))
        constant = named(m, "is_constant", 1, ~variance.any())
        if config.sums:
            # It takes the places of a mean and of a base.
            word = found_sum.word(m, not_finite)
            base = Mux(found_sum.on, word[widths.window + 1 :], base)[:BASE_BITS]
            m.d.comb += (
                self.sums[index].eq(Cat(self.mean[index], self.base[index]))
                for index in range(config.rows)
            )
        if config.centre:
            kept_mean = Mux(found_sum.on, word[: len(mean)], mean) if config.sums else mean
            self._keep_means(m, keep & ~deviates, is_row, kept_mean)
        of_deviation = Cat(base, constant, not_finite)
        keeps_base = named(m, "keeps_base", 1, keep & (deviates | found_sum.on))
        other = self._other()
        ends = widths.reciprocal, widths.reciprocal + len(of_deviation)
        others = [
            other and _Other(other.on, other.value[at], other.writes)
            for at in (slice(0, ends[0]), slice(*ends))
        ]
        bases = _kept(m, "deviation", keeps_base, is_row, of_deviation, others[1])
        for index, each in enumerate(bases):
            m.d.comb += Cat(self.base[index], self.constant[index], self.not_finite[index]).eq(each)
        # With a mean it makes room for factors of squares.
        factor = Mux(deviates, reciprocal, 0) if config.centre else reciprocal
        factors = _kept(m, "factor", keep, is_row, factor, others[0])
        m.d.comb += (self.reciprocal[index].eq(each) for index, each in enumerate(factors))
        if config.shared:
            for index, (factor, base) in enumerate(zip(factors, bases, strict=True)):
                mean = self.mean[index * config.copies] if config.centre else Const(0, 0)
                m.d.comb += self.held[index].eq(Cat(factor, base, mean))
        if config.statistics:
            word = _reciprocal_word(m, reciprocal, power, constant, not_finite)
            for index, each in enumerate(
                _kept(m, "reciprocal_deviation", keep & deviates, is_row, word)
            ):
                m.d.comb += self.statistics[index].reciprocal_deviation.eq(each)
        if config.statistics and config.centre:
            word = _mean_word(m, mean, largest, not_finite)
            for index, each in enumerate(_kept(m, "mean_word", keep & ~deviates, is_row, word)):
                m.d.comb += self.statistics[index].mean.eq(each)

    def _other(self) -> "_Other | None":
        """What is kept for something else, if it is shared."""
        return _Other(self.other, self.stored, self.stores) if self.config.shared else None

    def _keep_means(self, m: Module, write: Value, is_row: list[Signal], mean: Value) -> None:
        """Means of rows; the lower bits are those that are 0 while values are added up."""
        uncentred = ~self.centred if self.config.optional else Const(0, 1)
        uncentred = named(m, "has_no_mean", 1, uncentred)
        other = self._other()
        early: Value = self.leaves | uncentred
        if other:
            # What is kept for something else makes room once that has ended.
            early = (early | held(m, "was_other", other.on, reset=True)) & ~other.on
            mean = Mux(other.on, other.value[-len(mean) :], mean)
        early = named(m, "mean_begins_with_0", 1, early)
        bits = self.config.widths.window + 1 - EARLY_BITS
        zero = uncentred & ~other.on if other else uncentred
        following = named(m, "mean_high", bits, Mux(zero, 0, mean[EARLY_BITS:]))
        for index, here in enumerate(is_row):
            low = Signal(EARLY_BITS, name=f"mean_low_{index}")
            found: Value = write & here
            if other:
                found = found | other.writes[index]
            found = named(m, f"mean_is_found_{index}", 1, found)
            update(m, low, (early, 0), (found, mean[:EARLY_BITS]))
            writes = named(m, f"writes_mean_{index}", 1, zero | found)
            copies: list[Value] = [kept(m, writes, f"mean_high_{index}", following)]
            if self.config.copies > 1:
                # Synthesis makes one register of two that are equal.
                copies.append(~kept(m, writes, f"mean_high_inverse_{index}", ~following))
            for number, copy in enumerate(copies):
                m.d.comb += self.mean[index * len(copies) + number].eq(Cat(low, copy))

    def _sums(
        self,
        m: Module,
        phases: _Phases,
        is_row: list[Signal],
        divisor: Signal,
        settles: Signal,
    ) -> Value:
        """Count and add; return the two highest bits of the sum of the row that is divided."""
        config = self.config
        count = Signal(range(config.depth + 1), name="count")
        following = truncated(m, "next_count", len(count), count + 1)
        other: Value = self.other if config.shared else Const(0, 1)
        with m.If(self.add & ~other):
            m.d.sync += [count.eq(following), divisor.eq(following << config.span_bits % 2)]
        with m.Elif(self.done):
            m.d.sync += count.eq(0)
        with m.Elif(phases["keep"]):
            m.d.sync += divisor.eq(count << config.span_bits % 2)
        if config.sweeps:
            update(m, count, (self.begins, 0))
        sums = [Signal(config.sum_bits, name=f"sum_{index}") for index in range(config.rows)]
        # Those of something else settle whenever nothing is added.
        adds = named(m, "adds", 1, self.add | settles.any() | other)
        forgets: list[Value] = []
        if config.sweeps:
            forgets.append(self.begins)
        if config.shared:
            forgets.append(self.clear)
            m.d.comb += Cat(*self.totals).eq(Cat(*sums))
        for index, (total, here) in enumerate(zip(sums, is_row, strict=True)):
            carries = Signal(config.settling, name=f"carries_{index}")
            # Behind the last of them sums settle.
            numbers: list[Value] = [
                named(m, f"addend_{index}_{number}", len(addend), Mux(self.add, addend, 0))
                for number, addend in enumerate(map(Value.cast, self.addends[index]))
            ]
            left, right = total, numbers[0]
            negative: Value | None = None
            if config.sums:
                # A one's complement becomes that of two.
                negative = named(m, f"adds_negative_{index}", 1, self.negative[index] & self.add)
                above = negative.replicate(len(total) - len(right))
                right = Cat(right, above)
            if len(numbers) > 1:
                terms = [(number, 0) for number in (total, *numbers)]
                left, right = carry_save(m, f"all_{index}", terms, len(total))
            added = _in_parts(m, f"next_sum_{index}", left, right, carries, negative)
            shifts = named(m, f"shifts_sum_{index}", 1, phases["divide"] & here)
            clears = named(m, f"clears_sum_{index}", 1, phases["keep"] & here)
            with m.If(adds):
                m.d.sync += Cat(total, carries).eq(added)
            # What has been divided makes room.
            with m.Elif(shifts):
                m.d.sync += total.eq(Cat(Const(0, 2), total[:-2]))
            with m.Elif(clears):
                m.d.sync += total.eq(0)
            if forgets:
                with m.If(any_of(forgets)):
                    m.d.sync += [total.eq(0), carries.eq(0)]
        return _of_row(m, "sum_top", is_row, [total[-2:] for total in sums])

    def _digits(
        self,
        m: Module,
        phases: _Phases,
        top: Value,
        divisor: Value,
        last_step: Value,
        quotient: Signal,
        found_sum: "_Sum",
    ) -> Signal:
        """A quotient, two bits a cycle, or its square root, a bit a cycle, which is returned."""
        config = self.config
        divides = named(m, "divides", 1, phases["divide"] | phases["invert"])
        inverts = phases["invert"]
        bits, root_bits = config.divisor_bits, config.widths.root
        rest = Signal(bits, name="rest", reset_less=True)
        root = Signal(root_bits, name="root", reset_less=True)
        # The dividend of a reciprocal is all ones: first a rest of those below the point.
        dividend = named(m, "dividend", 2, top | inverts.replicate(2))
        # The second bit is tried for both outcomes of the first, which takes as long to know.
        doubled = Cat(dividend[1], rest)
        less, high = _subtract(m, "high", doubled, divisor)
        rest_if, low_if = _tried(m, "low_if_fits", Cat(dividend[0], less), divisor)
        rest_else, low_else = _tried(m, "low_else", Cat(dividend[0], doubled[:bits]), divisor)
        remainder = named(m, "remainder", bits, Mux(high, rest_if, rest_else))
        digits: Value = Cat(named(m, "low", 1, Mux(high, low_if, low_else)), high)
        shifts: Value = Const(1, 1)
        if config.sums:
            digits = Mux(found_sum.on, found_sum.digits, digits)
            shifts = ~found_sum.stays
        trial, following = Cat(Const(1, 2), root), quotient[2 * root_bits - 2 : 2 * root_bits]
        after_root, root_digit = _tried(m, "root", Cat(following, rest), trial)
        with m.If(divides):
            m.d.sync += [
                rest.eq(Mux(inverts & last_step, 0, remainder)),
                root.eq(0),
            ]
            update(m, quotient, (shifts, Cat(digits, quotient[:-2])))
        with m.Elif(phases["root"]):
            m.d.sync += [
                rest.eq(after_root),
                root.eq(Cat(root_digit, root[:-1])),
                quotient.eq(Cat(Const(0, 2), quotient[:-2])),
            ]
        with m.Elif(phases["widen"]):
            m.d.sync += [rest.eq((1 << config.widths.point) - 1), quotient.eq(0)]
        with m.Elif(~phases["scale"]):
            m.d.sync += [rest.eq(0), quotient.eq(0)]
        return root

    def _variance(
        self,
        m: Module,
        phases: _Phases,
        quotient: Value,
        steps: Value,
        is_row: list[Signal],
        variance: Signal,
        power: Signal,
        found_sum: "_Sum",
    ) -> None:
        """Power of 4 of a variance; `variance` gets its value from 1 to 4, both with `epsilon`.

        Of a sum the power is that of two.
        """
        config, bits = self.config, self.config.widths.variance
        largest = _of_row(m, "largest_of_variance", is_row, self.largest)
        less: Value = steps
        shifts: Value = Const(1, 1)
        above: Value = Const(config.power_offset - 1)
        if config.sums:
            above_sum = _LEADING - config.widths.window + config.sum_bits - 1
            above = named(m, "power_above", None, Mux(found_sum.on, above_sum, above))
            less = named(m, "power_less", None, Mux(found_sum.on, Cat(Const(0, 1), steps), steps))
            shifts = ~found_sum.stays
        update(m, power, (phases["divide"] & shifts, largest + above - less))
        field = self.epsilon[MANTISSA_BITS:31]
        present = named(m, "has_epsilon", 1, field.any())
        significand = Cat(self.epsilon[:MANTISSA_BITS], present)
        # A power of two that is none of four doubles the significand.
        odd = named(m, "epsilon_is_odd", 1, ~field[0])
        cut = len(significand) + 1 - bits
        small = Mux(odd, significand[cut - 1 :], significand[cut:])
        small = named(m, "epsilon_value", bits, Mux(present, small, 0))
        exponent = (field >> 1) - (Const(127 >> 1) + odd)
        small_power = named(m, "epsilon_power", signed(BASE_BITS), exponent)
        apart = named(m, "powers_apart", signed(BASE_BITS + 1), power - small_power)
        nothing = named(m, "variance_is_0", 1, ~quotient[:bits].any())
        found = quotient[:bits]
        size = named(m, "powers_distance", BASE_BITS + 1, Mux(apart[-1], -apart, apart)[:11])
        near = (bits // 2 - 1).bit_length()
        scale = phases["scale"]
        swap = kept(m, scale, "epsilon_is_larger", present & (apart[-1] | nothing))
        distance = kept(m, scale, "distance", size[:near])
        far = kept(m, scale, "is_far", size[near:].any())
        large = named(m, "larger", bits, Mux(swap, small, found))
        lower = named(m, "smaller", bits, Mux(swap, found, small))
        addend = Mux(far, 0, lower >> Cat(Const(0, 1), distance))
        total = named(m, "variance_sum", bits + 1, large + addend)
        carry = total[-1]
        top = named(m, "larger_power", signed(BASE_BITS), Mux(swap, small_power, power))
        raised = truncated(m, "raised_power", BASE_BITS, top + 1)
        with m.If(phases["widen"]):
            m.d.sync += [
                variance.eq(Mux(carry, total[2:], total[:-1])),
                # The carry comes last: both powers are there before it.
                power.eq(Mux(carry, raised, top)),
            ]


class _Sum:
    """A sum as a number: its bits pass through the quotient until the first is in its place.

    Attributes
    ----------
    on : Value
        A sum is what is wanted.
    digits : Value
        Two bits, inverted in a sum below 0.
    stays : Value
        The bits in the quotient stay.
    ends : Value
        All bits have come, and the first is in its place.
    """

    def __init__(
        self,
        m: Module,
        unit: NormaliseRow,
        divides: Value,
        top: Value,
        quotient: Signal,
        power: Signal,
        steps: Value,
    ) -> None:
        config = unit.config
        self.on: Value = Const(0, 1)
        if not config.sums:
            return
        self.on = unit.summing
        self._quotient = quotient
        begins = named(m, "sum_enters", 1, ~steps.any())
        self._negative = Signal(name="sum_was_negative", reset_less=True)
        negative = named(m, "sum_is_negative", 1, Mux(begins, top[-1], self._negative))
        self.digits = named(m, "sum_digits", 2, top ^ negative.replicate(2))
        # The exponent field of a number whose first bit is at the place of `_LEADING`.
        self._field = power
        lowest = named(m, "sum_is_lowest", 1, self._field <= 1)
        leads = quotient[_LEADING : _LEADING + 2].any()
        placed = named(m, "sum_is_placed", 1, ~begins & (leads | lowest))
        self.stays = named(m, "sum_stays", 1, self.on & placed)
        # A subnormal number has an exponent field of 1, whatever its first bit.
        self._high = named(m, "sum_is_high", 1, quotient[_LEADING + 1] | (lowest & ~self._field[0]))
        self._sticky = Signal(name="sum_is_sticky", reset_less=True)
        with m.If(divides):
            m.d.sync += [
                self._negative.eq(negative),
                self._sticky.eq(placed & (self._sticky | top.any())),
            ]
        came = named(m, "sum_has_come", 1, steps >= config.sum_bits // 2 - 1)
        # Steps of two bits until the first bit of any sum is in its place, once all bits came.
        last = config.sum_bits // 2 + -(-(_LEADING + 1) // 2) - 1
        most = named(m, "sum_has_no_more", 1, steps == last)
        self.ends = named(m, "sum_ends", 1, (came & placed) | most)

    def word(self, m: Module, nan: Value) -> Value:
        """The sum, rounded to nearest even, as a binary32."""
        q, high, negative = self._quotient, self._high, self._negative
        kept = q[1 : _LEADING + 2]
        significand = named(m, "sum_significand", _FULL, Mux(high, kept[1:], kept[:-1]))
        half = named(m, "sum_half", 1, Mux(high, q[1], q[0]))
        below = named(m, "sum_has_below", 1, self._sticky | (high & (q[0] ^ negative)))
        odd = significand[0]
        # Bits of a number below 0 are those of one less than its magnitude.
        rounds = Mux(negative, half | (~below & odd), half & (below | odd))
        up = named(m, "sum_rounds_up", 1, rounds)
        raised = truncated(m, "sum_field_raised", BASE_BITS, self._field + high)
        hidden = significand[-1]
        field = raised & hidden.replicate(len(raised))
        magnitude = named(
            m, "sum_magnitude", MANTISSA_BITS + BASE_BITS, Cat(significand[:-1], field) + up
        )
        exponent = magnitude[MANTISSA_BITS:]
        infinite = named(m, "sum_is_infinite", 1, exponent >= LARGEST_EXPONENT + 1)
        return pack_special(m, magnitude[:31], negative, infinite, nan)


def _mean_word(m: Module, mean: Value, largest: Value, not_finite: Value) -> Value:
    """A mean in units of the window, with its offset, as a binary32 that is cut towards zero."""
    negative = named(m, "mean_is_negative", 1, ~mean[-1])
    magnitude = named(
        m, "mean_magnitude", len(mean) - 1, mean[:-1] ^ negative.replicate(len(mean) - 1)
    )
    significand, field = normalise(m, "mean_normalised", magnitude, largest)
    fraction = significand[len(significand) - MANTISSA_BITS - 1 : -1]
    return pack_special(m, Cat(fraction, field), negative, Const(0, 1), not_finite)


def _reciprocal_word(
    m: Module, reciprocal: Value, power: Value, constant: Value, not_finite: Value
) -> Value:
    """A reciprocal deviation as a binary32; Inf without a deviation."""
    # The significand stands for 1/2 to 1, and the exponent of a subnormal is below 1 by 1 at most.
    exponent = named(m, "reciprocal_exponent", signed(BASE_BITS + 1), _BIAS - 1 - power)
    subnormal = named(m, "reciprocal_is_subnormal", 1, exponent <= 0)
    zeros = Const(0, MANTISSA_BITS + 1 - len(reciprocal))
    significand = Cat(zeros, reciprocal)  # with the hidden bit
    shifted = named(
        m,
        "reciprocal_shifted",
        MANTISSA_BITS,
        Mux(exponent[0], significand[2:], significand[1:]),
    )
    fraction = Mux(subnormal, shifted, significand[:-1])
    field = Mux(subnormal, 0, exponent[:EXPONENT_BITS])
    beyond = named(m, "reciprocal_is_infinite", 1, constant | (exponent > LARGEST_EXPONENT))
    return pack_special(m, Cat(fraction, field), Const(0, 1), beyond, not_finite)


def _in_parts(
    m: Module,
    name: str,
    total: Value,
    addend: Value,
    carries: Value,
    one: Value | None = None,
) -> Value:
    """A sum as wide as the total, in parts with the carries of the cycle before, and its carries.

    That of the highest part is 0. Perhaps with one more.
    """
    size = -(-len(total) // (len(carries) + 1))
    parts, going = [], []
    for index, start in enumerate(range(0, len(total), size)):
        mine, other = total[start : start + size], addend[start : start + size]
        carry = carries[index - 1] if index else one
        if carry is not None:
            # From a bit below, where it meets a one.
            mine, other = Cat(Const(1, 1), mine), Cat(carry, other)
        added = named(m, f"{name}_{index}", len(mine) + 1, mine + other)[carry is not None :]
        parts.append(added[:-1])
        going.append(added[-1])
    return Cat(*parts, *going[:-1])


def _subtract(m: Module, name: str, value: Value, other: Value) -> tuple[Value, Value]:
    """A value less another, a bit narrower than the value, and whether that fits."""
    less = named(m, f"{name}_less", len(value) + 1, value - other)
    return less[: len(value) - 1], named(m, f"{name}_fits", 1, ~less[-1])


def _tried(m: Module, name: str, value: Value, other: Value) -> tuple[Value, Value]:
    """A value less another where that fits, and whether it does."""
    less, fits = _subtract(m, name, value, other)
    return named(m, f"{name}_rest", len(less), Mux(fits, less, value[: len(less)])), fits


def _of_row(m: Module, name: str, is_row: list[Signal], values: Sequence[Value]) -> Value:
    """The value of the row that is worked on."""
    if len(is_row) == 1:
        return values[0]
    return gated_or(m, name, zip(is_row, values, strict=True))


@dataclass(frozen=True)
class _Other:
    """What registers keep for something else, if that is on, and where it is written."""

    on: Value
    value: Value
    writes: Value


def _kept(
    m: Module,
    name: str,
    write: Value,
    is_row: list[Signal],
    value: Value,
    other: _Other | None = None,
) -> list[Signal]:
    """A value that is kept for each row."""
    if other:
        value = named(m, f"{name}_or_other", len(value), Mux(other.on, other.value, value))
    registers = []
    for index, here in enumerate(is_row):
        own = write & here
        wanted = own | other.writes[index] if other else own
        keeps = named(m, f"keeps_{name}_{index}", 1, wanted)
        registers.append(kept(m, keeps, f"{name}_{index}", value))
    return registers
