// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package printf formats calls of C's printf with arguments that are known by their bits, as a kernel's thread has them.
package printf

import (
	"fmt"
	"math"
	"strings"
)

// Call is a call of printf.
type Call struct {
	Format    string
	Arguments []Argument // of all conversions of the format, in order
}

// Argument is an argument of a call: its bits and, if it points at a text, the text.
type Argument struct {
	Bits uint64
	Text string
}

// Conversion is a conversion of a format, or the text before a conversion.
type Conversion struct {
	text   string // literal
	spec   string // "%-*d" without length modifiers; "" for a literal
	conv   byte
	stars  int
	wide   bool // an integer of 64 bits
	length int  // bytes of an integer, for hh and h
}

// ParseFormat cuts a format into literals and conversions.
func ParseFormat(format string) []Conversion {
	var out []Conversion
	for format != "" {
		at := strings.IndexByte(format, '%')
		if at < 0 {
			return append(out, Conversion{text: format})
		}
		if at > 0 {
			out = append(out, Conversion{text: format[:at]})
		}
		format = format[at:]
		i := 1
		for i < len(format) && strings.IndexByte("-+ #0123456789.*", format[i]) >= 0 {
			i++
		}
		v := Conversion{spec: format[:i], length: 4}
		v.stars = strings.Count(v.spec, "*")
		for i < len(format) && strings.IndexByte("hljztL", format[i]) >= 0 {
			switch format[i] {
			case 'h':
				v.length /= 2
			case 'l', 'j', 'z', 't':
				v.wide = true
			}
			i++
		}
		if i == len(format) {
			return append(out, Conversion{text: format})
		}
		v.conv = format[i]
		format = format[i+1:]
		if v.conv == '%' {
			v = Conversion{text: "%"}
		}
		out = append(out, v)
	}
	return out
}

// Operand is an argument that a conversion takes.
type Operand struct {
	Size   uint64 // in bytes
	IsText bool   // the argument is the address of a text
}

// Operands returns the arguments that a conversion takes; nil for a literal.
func (v *Conversion) Operands() []Operand {
	if v.spec == "" {
		return nil
	}
	var out []Operand
	for range v.stars {
		out = append(out, Operand{Size: 4})
	}
	switch v.conv {
	case 's':
		return append(out, Operand{Size: 8, IsText: true})
	case 'p', 'e', 'E', 'f', 'F', 'g', 'G', 'a', 'A':
		return append(out, Operand{Size: 8})
	}
	if v.wide {
		return append(out, Operand{Size: 8})
	}
	return append(out, Operand{Size: 4})
}

// Text formats the call as C does.
func (c *Call) Text() string {
	var b strings.Builder
	args := c.Arguments
	next := func() Argument {
		if len(args) == 0 {
			return Argument{}
		}
		a := args[0]
		args = args[1:]
		return a
	}
	for _, v := range ParseFormat(c.Format) {
		if v.spec == "" {
			b.WriteString(v.text)
			continue
		}
		spec := v.spec
		for range v.stars {
			spec = strings.Replace(spec, "*", fmt.Sprint(int32(next().Bits)), 1)
		}
		b.WriteString(v.formatArg(spec, next()))
	}
	return b.String()
}

// formatArg formats an argument.
func (v *Conversion) formatArg(spec string, a Argument) string {
	signed := int64(int32(a.Bits))
	unsigned := uint64(uint32(a.Bits))
	switch {
	case v.wide:
		signed, unsigned = int64(a.Bits), a.Bits
	case v.length == 2:
		signed, unsigned = int64(int16(a.Bits)), uint64(uint16(a.Bits))
	case v.length == 1:
		signed, unsigned = int64(int8(a.Bits)), uint64(uint8(a.Bits))
	}
	// Go ignores the flag 0 where C does: with a precision for integers.
	if strings.Contains(spec, ".") && strings.IndexByte("diuxXo", v.conv) >= 0 {
		spec = "%" + strings.TrimLeft(spec[1:], "0")
	}
	switch v.conv {
	case 'd', 'i':
		return fmt.Sprintf(spec+"d", signed)
	case 'u':
		return fmt.Sprintf(spec+"d", unsigned)
	case 'x', 'X', 'o':
		return fmt.Sprintf(spec+string(v.conv), unsigned)
	case 'c':
		return fmt.Sprintf(spec+"s", string([]byte{byte(a.Bits)}))
	case 's':
		return fmt.Sprintf(spec+"s", a.Text)
	case 'p':
		return fmt.Sprintf(spec+"s", fmt.Sprintf("%#x", a.Bits))
	case 'e', 'E', 'f', 'F', 'g', 'G':
		return cFloat(fmt.Sprintf(cPrecision(spec, v.conv)+string(v.conv), math.Float64frombits(a.Bits)))
	case 'a', 'A':
		return fmt.Sprintf(spec+string('x'+v.conv-'a'), math.Float64frombits(a.Bits))
	}
	return spec + string(v.conv)
}

// cPrecision adds the precision that C assumes for %g.
func cPrecision(spec string, conv byte) string {
	if (conv == 'g' || conv == 'G') && !strings.Contains(spec, ".") {
		return spec + ".6"
	}
	return spec
}

// cFloat writes infinities and NaNs as C does.
func cFloat(s string) string {
	return strings.NewReplacer("+Inf", "inf", "Inf", "inf", "NaN", "nan").Replace(s)
}
