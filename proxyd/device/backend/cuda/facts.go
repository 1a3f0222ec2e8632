// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/image"
)

// facts are read from an image, because drivers lack calls for them: its kernels and variables, the places of
// parameters, the block that a kernel requires.
type facts struct {
	kernels   []kernelFacts
	variables []variableFacts
	managed   []string // variables that are declared managed
	unread    error    // code that the driver may have chosen and that was not understood: it may have more variables
}

type kernelFacts struct {
	name       string
	params     []backend.Param
	required   backend.Dim
	everywhere bool // surely there, whichever code of the image the driver chooses
}

type variableFacts struct {
	name     string
	constant bool // no kernel writes the variable
}

// readImage takes all code of an image: whichever the driver chooses, its names are among them.
func (f *facts) readImage(data []byte) {
	// A driver that is our own shim links to a bundle.
	if parts, err := image.Parts(data); err == nil && len(parts) > 1 {
		for _, p := range parts {
			f.readImage(p) // the driver takes all of them
		}
		return
	}
	var pieces []facts
	defer func() { f.addPieces(pieces) }()
	entries, err := image.Entries(data)
	if err != nil {
		f.unread = err // the driver may know more formats
		return
	}
	known := len(entries) == 0
	for i := range entries {
		e := &entries[i]
		switch e.Kind {
		case image.PTX:
			var piece facts
			text, err := e.Text()
			f.setUnread(err)
			piece.readPTX(text)
			pieces = append(pieces, piece)
		case image.ELF:
			var piece facts
			b, err := e.Bytes()
			if f.setUnread(err); err == nil {
				f.setUnread(piece.readCubin(b))
			}
			pieces = append(pieces, piece)
		default:
			continue // in a form that accompanies one of the other forms, for another use
		}
		known = true
	}
	if !known {
		f.unread = fmt.Errorf("code of kind %d", entries[0].Kind)
	}
}

// addPieces adds the facts of all pieces of code of an image, of which the driver chooses a piece.
func (f *facts) addPieces(pieces []facts) {
	has := map[string]int{} // in how many pieces a kernel surely is
	for _, p := range pieces {
		for _, k := range p.kernels {
			if k.everywhere {
				has[k.name]++
			}
		}
	}
	for _, p := range pieces {
		for _, k := range p.kernels {
			k.everywhere = has[k.name] == len(pieces) && f.unread == nil
			f.addKernel(k)
		}
		for _, v := range p.variables {
			f.addVariable(v)
		}
		for _, name := range p.managed {
			f.addManaged(name)
		}
	}
}

// setUnread notes that a part of the image was not understood, and why.
func (f *facts) setUnread(err error) {
	if err != nil {
		f.unread = err
	}
}

func (f *facts) addKernel(k kernelFacts) {
	if !slices.ContainsFunc(f.kernels, func(o kernelFacts) bool { return o.name == k.name }) {
		f.kernels = append(f.kernels, k)
	}
}

func (f *facts) addVariable(v variableFacts) {
	if !slices.ContainsFunc(f.variables, func(o variableFacts) bool { return o.name == v.name }) {
		f.variables = append(f.variables, v)
	}
}

func (f *facts) addManaged(name string) {
	if !slices.Contains(f.managed, name) {
		f.managed = append(f.managed, name)
	}
}

const identifier = `([a-zA-Z][\w$]*|[_$%][\w$]+)`

var (
	ptxComment  = regexp.MustCompile(`(?s)//[^\n]*|/\*.*?\*/`)
	ptxEntry    = regexp.MustCompile(`\.entry\s+` + identifier + `\s*(?:\(([^)]*)\))?([^{;]*)[{;]`)
	ptxRequired = regexp.MustCompile(`\.reqntid\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?`)
	ptxParam    = regexp.MustCompile(`\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+(?:\.ptr\s*(?:\.\w+\s*)?(?:\.align\s+\d+\s*)?)?` + identifier + `\s*(?:\[\s*(\d+)\s*\])?`)
	ptxManaged  = regexp.MustCompile(`\.attribute\s*\([^)]*\.managed[^)]*\)\s*(?:\.\w+\s+(?:\d+\s+)?)*?\.[a-z]+\d+\s+` + identifier)
	ptxVariable = regexp.MustCompile(`(?m)((?:\.(?:extern|visible|weak|common)\s+)*)\.(global|const)\s+(?:\.\w+\s+(?:\d+\s+)?)*?\.[a-z]+\d+\s+` + identifier)
)

// readPTX reads the text outside of bodies.
func (f *facts) readPTX(text string) {
	text = withoutBodies(ptxComment.ReplaceAllString(text, " "))
	for _, m := range ptxEntry.FindAllStringSubmatch(text, -1) {
		k := kernelFacts{name: m[1], everywhere: strings.HasSuffix(m[0], "{")}
		if r := ptxRequired.FindStringSubmatch(m[3]); r != nil {
			k.required = backend.Dim{X: parseNumber(r[1], 1), Y: parseNumber(r[2], 1), Z: parseNumber(r[3], 1)}
		}
		at := uint32(0)
		for _, p := range ptxParam.FindAllStringSubmatch(m[2], -1) {
			one := typeSize(p[2])
			n := one * parseNumber(p[4], 1)
			align := parseNumber(p[1], one)
			at = (at + align - 1) / align * align
			k.params = append(k.params, backend.Param{Offset: at, Size: n})
			at += n
		}
		f.addKernel(k)
	}
	for _, m := range ptxManaged.FindAllStringSubmatch(text, -1) {
		f.addManaged(m[1])
	}
	for _, m := range ptxVariable.FindAllStringSubmatch(text, -1) {
		if !strings.Contains(m[1], ".extern") {
			f.addVariable(variableFacts{name: m[3], constant: m[2] == "const"})
		}
	}
}

// withoutBodies empties the text between braces: bodies, and the initial values of variables. The braces stay.
func withoutBodies(text string) string {
	var b strings.Builder
	depth := 0
	for _, r := range text {
		if r == '}' {
			depth--
		}
		if depth <= 0 {
			b.WriteRune(r)
		}
		if r == '{' {
			depth++
		}
	}
	return b.String()
}

func parseNumber(s string, otherwise uint32) uint32 {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || n == 0 {
		return otherwise
	}
	return uint32(n)
}

// typeSize is how many bytes a type has, by the number at its end.
func typeSize(kind string) uint32 {
	bits := parseNumber(strings.TrimLeft(kind, "abcdefghijklmnopqrstuvwxyz"), 8)
	return max(bits/8, 1)
}

// The notes of a cubin on a kernel, in the section .nv.info.KERNEL: a list of u8 form, u8 attribute, u16 value; where
// the form is sized, the value is the number of bytes that follow.
const (
	formSized     = 4
	attrRequired  = 0x10 // u32 x, y, z
	attrParameter = 0x17 // u32, u16 index, u16 offset, u32 with the size in its upper 14 bits
)

// The bits of a symbol's st_other that a variable has which is declared managed, and that a kernel has, but no function that
// kernels call.
const (
	managedSymbol = 4
	kernelSymbol  = 0x10
)

// readCubin reads machine code's symbols and notes.
func (f *facts) readCubin(b []byte) error {
	file, err := elf.NewFile(versionOne{bytes.NewReader(b)})
	if err != nil {
		return err
	}
	symbols, err := file.Symbols()
	if errors.Is(err, elf.ErrNoSymbols) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, s := range symbols {
		if int(s.Section) <= 0 || int(s.Section) >= len(file.Sections) {
			continue
		}
		section := file.Sections[s.Section].Name
		switch {
		case elf.ST_TYPE(s.Info) == elf.STT_FUNC && section == ".text."+s.Name:
			k := kernelFacts{name: s.Name, everywhere: s.Other&kernelSymbol != 0}
			info := file.Section(".nv.info." + s.Name)
			if info == nil {
				continue // a function that kernels call
			}
			if data, err := info.Data(); err == nil {
				k.readNotes(data)
			}
			f.addKernel(k)
		case elf.ST_TYPE(s.Info) == elf.STT_OBJECT && s.Other&managedSymbol != 0:
			f.addManaged(s.Name)
		case elf.ST_TYPE(s.Info) == elf.STT_OBJECT && strings.HasPrefix(section, ".nv.global"):
			f.addVariable(variableFacts{name: s.Name})
		case elf.ST_TYPE(s.Info) == elf.STT_OBJECT && strings.HasPrefix(section, ".nv.constant3"):
			f.addVariable(variableFacts{name: s.Name, constant: true})
		}
	}
	return nil
}

// versionOne is an ELF file that says to be of version 1. Compilers since CUDA 12 put their own version into that field of cubins,
// which debug/elf takes for an unknown format.
type versionOne struct{ *bytes.Reader }

// ReadAt implements io.ReaderAt.
func (v versionOne) ReadAt(p []byte, at int64) (int, error) {
	const field = 20
	n, err := v.Reader.ReadAt(p, at)
	for i, b := range []byte{1, 0, 0, 0} {
		if to := field + int64(i) - at; to >= 0 && to < int64(n) {
			p[to] = b
		}
	}
	return n, err
}

func (k *kernelFacts) readNotes(data []byte) {
	le := binary.LittleEndian
	params := map[uint16]backend.Param{}
	for len(data) >= 4 {
		form, attr, n := data[0], data[1], int(le.Uint16(data[2:]))
		data = data[4:]
		if form != formSized {
			continue
		}
		if n > len(data) {
			return
		}
		switch v := data[:n]; {
		case attr == attrRequired && n >= 12:
			k.required = backend.Dim{X: le.Uint32(v), Y: le.Uint32(v[4:]), Z: le.Uint32(v[8:])}
		case attr == attrParameter && n >= 12:
			params[le.Uint16(v[4:])] = backend.Param{Offset: uint32(le.Uint16(v[6:])), Size: le.Uint32(v[8:]) >> 18}
		}
		data = data[n:]
	}
	for i := range uint16(len(params)) {
		p, ok := params[i]
		if !ok {
			k.params = nil
			return
		}
		k.params = append(k.params, p)
	}
}
