// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package codecache

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
)

// errNoBuild: the program was linked with -buildid= or by another linker.
var errNoBuild = errors.New("the program has no build ID of Go")

// ReadVersion returns the build ID that Go's linker has written into a program. It is a hash of all that the program was
// built from, so two programs with the same build ID make the same machine code.
func ReadVersion(program string) (string, error) {
	f, err := elf.Open(program)
	if err != nil {
		return "", err
	}
	defer f.Close()
	s := f.Section(".note.go.buildid")
	if s == nil {
		return "", fmt.Errorf("%s: %w", program, errNoBuild)
	}
	note, err := s.Data()
	if err != nil {
		return "", fmt.Errorf("%s: %w", program, err)
	}
	// The note: the lengths of the name and the content, the kind 4, the name "Go\0\0", the content.
	const head, kind = 16, 4
	if len(note) <= head || !bytes.Equal(note[12:head], []byte("Go\x00\x00")) || f.ByteOrder.Uint32(note[8:]) != kind {
		return "", fmt.Errorf("%s: %w", program, errNoBuild)
	}
	n := binary.LittleEndian.Uint32(note[4:])
	if n == 0 || uint64(n) > uint64(len(note)-head) {
		return "", fmt.Errorf("%s: %w", program, errNoBuild)
	}
	return string(note[head : head+n]), nil
}
