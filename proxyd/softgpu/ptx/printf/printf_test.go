// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package printf

import (
	"math"
	"testing"
)

// TestText formats as C does.
func TestText(t *testing.T) {
	number := func(bits uint64) Argument { return Argument{Bits: bits} }
	float := func(f float64) Argument { return Argument{Bits: math.Float64bits(f)} }
	for _, tt := range []struct {
		format string
		args   []Argument
		want   string
	}{
		{"plain", nil, "plain"},
		{"100%%", nil, "100%"},
		{"%d|%u", []Argument{number(0xffffffff), number(0xffffffff)}, "-1|4294967295"},
		{"%lld|%zu", []Argument{number(math.MaxUint64), number(1 << 40)}, "-1|1099511627776"},
		{"%hd|%hhu|%hhd", []Argument{number(0x18000), number(0x1ff), number(0x80)}, "-32768|255|-128"},
		{"%*d|%-*d|", []Argument{number(4), number(7), number(3), number(7)}, "   7|7  |"},
		{"%05.3d|%05d", []Argument{number(7), number(7)}, "  007|00007"},
		{"%x|%#X|%o", []Argument{number(255), number(255), number(8)}, "ff|0XFF|10"},
		{"%c%s", []Argument{number('A'), {Bits: 1, Text: "bc"}}, "Abc"},
		{"%p", []Argument{number(0x7f00)}, "0x7f00"},
		{"%g|%.3g|%e", []Argument{float(1.0 / 3), float(1.0 / 3), float(1)}, "0.333333|0.333|1.000000e+00"},
		{"%f|%f|%f", []Argument{float(math.Inf(1)), float(math.Inf(-1)), float(math.NaN())}, "inf|-inf|nan"},
		{"%d and %d", []Argument{number(1)}, "1 and 0"},
		{"ends in %l", nil, "ends in %l"},
	} {
		c := Call{Format: tt.format, Arguments: tt.args}
		if got := c.Text(); got != tt.want {
			t.Errorf("%q of %v: %q, want %q", tt.format, tt.args, got, tt.want)
		}
	}
}

// TestOperands: a literal takes no argument, and each star takes an argument.
func TestOperands(t *testing.T) {
	var sizes []uint64
	texts, conversions := 0, 0
	for _, c := range ParseFormat("a %% %*d %lu %s %f %hhd") {
		operands := c.Operands()
		if operands != nil {
			conversions++
		}
		for _, o := range operands {
			sizes = append(sizes, o.Size)
			if o.IsText {
				texts++
			}
		}
	}
	if conversions != 5 || texts != 1 || len(sizes) != 6 {
		t.Fatalf("%d conversions with %d arguments, %d of them texts", conversions, len(sizes), texts)
	}
	for i, want := range []uint64{4, 4, 8, 8, 8, 4} {
		if sizes[i] != want {
			t.Errorf("argument %d has %d bytes, want %d", i, sizes[i], want)
		}
	}
}
