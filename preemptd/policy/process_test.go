// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"io"
	"log/slog"
	"os"
	"testing"
	"testing/iotest"
)

// TestLastWords: when a process has ended, its last line is in the output, also a last line without a line break.
func TestLastWords(t *testing.T) {
	for said, want := range map[string]string{"first\nlast": "last", "first\nlast\n": "last", "": ""} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		out := &output{log: slog.New(slog.DiscardHandler)}
		p := &process{stderr: r, said: out, saidAll: make(chan struct{})}
		if _, err := io.WriteString(w, said); err != nil {
			t.Fatal(err)
		}
		w.Close()
		from := p.Stderr()
		read, err := io.ReadAll(iotest.OneByteReader(from))
		select {
		case <-p.saidAll:
		default:
			t.Errorf("%q: the end is not noted", said)
		}
		if string(read) != said || err != nil || out.lastComplaint() != want {
			t.Errorf("%q: read %q, %v; the last complaint is %q, want %q", said, read, err, out.lastComplaint(), want)
		}
		from.Close()
	}
}
