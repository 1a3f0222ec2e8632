// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package pmitest

import (
	"encoding/binary"
	"io"
	"testing"
)

// FuzzParsers gives inputs to the parsers of commands, frames, pairs and the hub's place, in a process under sanitizers.
// The first byte of an input chooses the parser.
func FuzzParsers(f *testing.F) {
	for _, seed := range []string{
		"1cmd=init pmi_version=1 pmi_subversion=1\ncmd=get_maxes\n",
		"1mcmd=spawn\nnprocs=2\nexecname=a\nendcmd\ncmd=finalize\n",
		"2    22cmd=kvs-put;key=a;;b;=;", "2000005cmd=a999999", "2     0",
		"f\x00\x00\x00\x0c\x02\x00\x00\x00\x01\x00\x00\x00\x01ab\x00\x00",
		"p\x00\x00\x00\x01\x00\x00\x00\x01ab\x00\x00\x00\x01\xff\xff\xff\xffab",
		"h10.88.1.1:4000:0123456789abcdef0123456789abcdef", "h::", "h1.2.3.4:65536:",
	} {
		f.Add([]byte(seed))
	}
	cmd := harnessCommand(f, "parse")
	to, err := cmd.StdinPipe()
	if err != nil {
		f.Fatal(err)
	}
	from, err := cmd.StdoutPipe()
	if err != nil {
		f.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		to.Close()
		if err := cmd.Wait(); err != nil {
			f.Errorf("the parsers: %v", err)
		}
	})
	f.Fuzz(func(t *testing.T, input []byte) {
		_, err := to.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(input))), input...))
		var done [1]byte
		if err == nil {
			_, err = io.ReadFull(from, done[:])
		}
		if err != nil {
			t.Fatalf("the parser died of %q: %v", input, err)
		}
	})
}
