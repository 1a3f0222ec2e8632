// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"fmt"
	"math"
	"strings"
)

// Printf is a thread's call of printf.
type Printf struct {
	Format        string
	Block, Thread Dim3

	conversions int
	args        []printfArg
}

// printfArg is an argument: its bits, or the text that the argument points at.
type printfArg struct {
	bits uint64
	text string
}

// verb is a conversion of a format, or the text before a conversion.
type verb struct {
	text   string // literal
	spec   string // "%-*d" without length modifiers; "" for a literal
	conv   byte
	stars  int
	wide   bool // an integer of 64 bits
	length int  // bytes of an integer, for hh and h
}

// parseFormat cuts a format into literals and conversions.
func parseFormat(format string) []verb {
	var out []verb
	for format != "" {
		at := strings.IndexByte(format, '%')
		if at < 0 {
			return append(out, verb{text: format})
		}
		if at > 0 {
			out = append(out, verb{text: format[:at]})
		}
		format = format[at:]
		i := 1
		for i < len(format) && strings.IndexByte("-+ #0123456789.*", format[i]) >= 0 {
			i++
		}
		v := verb{spec: format[:i], length: 4}
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
			return append(out, verb{text: format})
		}
		v.conv = format[i]
		format = format[i+1:]
		if v.conv == '%' {
			v = verb{text: "%"}
		}
		out = append(out, v)
	}
	return out
}

// readArgs takes the arguments from the buffer at addr: 32-bit arguments at multiples of 4, other
// arguments at multiples of 8.
func (p *Printf) readArgs(w *warp, addr uint64, verbs []verb, lane int) {
	at := uint64(0)
	next := func(n uint64) uint64 {
		at = (at + n - 1) &^ (n - 1)
		b := w.genericBytes(addr+at, n, lane)
		at += n
		return readBytes(b)
	}
	for _, v := range verbs {
		if v.spec == "" {
			continue
		}
		p.conversions++
		for range v.stars {
			p.args = append(p.args, printfArg{bits: next(4)})
		}
		switch v.conv {
		case 's':
			a := next(8)
			p.args = append(p.args, printfArg{bits: a, text: w.readText(a, lane)})
		case 'p', 'e', 'E', 'f', 'F', 'g', 'G', 'a', 'A':
			p.args = append(p.args, printfArg{bits: next(8)})
		default:
			n := uint64(4)
			if v.wide {
				n = 8
			}
			p.args = append(p.args, printfArg{bits: next(n)})
		}
	}
}

// Text formats the call as C does.
func (p *Printf) Text() string {
	var b strings.Builder
	args := p.args
	next := func() printfArg {
		if len(args) == 0 {
			return printfArg{}
		}
		a := args[0]
		args = args[1:]
		return a
	}
	for _, v := range parseFormat(p.Format) {
		if v.spec == "" {
			b.WriteString(v.text)
			continue
		}
		spec := v.spec
		for range v.stars {
			spec = strings.Replace(spec, "*", fmt.Sprint(int32(next().bits)), 1)
		}
		b.WriteString(v.formatArg(spec, next()))
	}
	return b.String()
}

// formatArg formats an argument.
func (v verb) formatArg(spec string, a printfArg) string {
	signed := int64(int32(a.bits))
	unsigned := uint64(uint32(a.bits))
	switch {
	case v.wide:
		signed, unsigned = int64(a.bits), a.bits
	case v.length == 2:
		signed, unsigned = int64(int16(a.bits)), uint64(uint16(a.bits))
	case v.length == 1:
		signed, unsigned = int64(int8(a.bits)), uint64(uint8(a.bits))
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
		return fmt.Sprintf(spec+"s", string([]byte{byte(a.bits)}))
	case 's':
		return fmt.Sprintf(spec+"s", a.text)
	case 'p':
		return fmt.Sprintf(spec+"s", fmt.Sprintf("%#x", a.bits))
	case 'e', 'E', 'f', 'F', 'g', 'G':
		return cFloat(fmt.Sprintf(cPrecision(spec, v.conv)+string(v.conv), math.Float64frombits(a.bits)))
	case 'a', 'A':
		return fmt.Sprintf(spec+string('x'+v.conv-'a'), math.Float64frombits(a.bits))
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

// cFloat writes what is no number as C does.
func cFloat(s string) string {
	return strings.NewReplacer("+Inf", "inf", "Inf", "inf", "NaN", "nan").Replace(s)
}
