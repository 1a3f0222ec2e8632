// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func describeRequest(words ...string) []byte { return []byte(strings.Join(words, "\x00") + "\x00") }

func TestParseCall(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   []byte
		want *Call
		errs string
	}{
		{name: "all", in: describeRequest("/home", "27", "2", "srun", "", "A=b", "C=", "D=e=f\n\xff"),
			want: &Call{Dir: "/home", Umask: 0o27, Args: []string{"srun", ""}, Env: []string{"A=b", "C=", "D=e=f\n\xff"}}},
		{name: "no environment", in: describeRequest("/", "0", "1", "srun"), want: &Call{Dir: "/", Args: []string{"srun"}}},
		{name: "no folder", in: describeRequest("", "777", "1", "srun"), want: &Call{Umask: 0o777, Args: []string{"srun"}}},
		{name: "entries that are none", in: describeRequest("/", "0", "1", "srun", "x", "=y", "", "A=b"),
			want: &Call{Dir: "/", Args: []string{"srun"}, Env: []string{"A=b"}}},
		{name: "empty", errs: "cut off"},
		{name: "cut off", in: describeRequest("/", "0", "1", "srun")[:9], errs: "cut off"},
		{name: "too short", in: describeRequest("/", "0", "1"), errs: "3 strings"},
		{name: "relative folder", in: describeRequest("home", "0", "1", "srun"), errs: `folder "home"`},
		{name: "crooked folder", in: describeRequest("/a/../b", "0", "1", "srun"), errs: `folder "/a/../b"`},
		{name: "umask", in: describeRequest("/", "1000", "1", "srun"), errs: `umask "1000"`},
		{name: "umask in words", in: describeRequest("/", "none", "1", "srun"), errs: `umask "none"`},
		{name: "no arguments", in: describeRequest("/", "0", "0", "srun"), errs: `"0" arguments`},
		{name: "less than none", in: describeRequest("/", "0", "-1", "srun"), errs: `"-1" arguments`},
		{name: "more than there are", in: describeRequest("/", "0", "2", "srun"), errs: `"2" arguments`},
		{name: "far too many", in: describeRequest("/", "0", "99999999999999999999", "srun"), errs: `arguments`},
		{name: "too long", in: make([]byte, MaxCall+1), errs: "longer than 6303744 bytes"},
		{name: "too long a string", in: describeRequest("/", "0", "1", "srun", "A="+strings.Repeat("b", maxString)), errs: "a string of 131075 bytes"},
		{name: "the longest string", in: describeRequest("/", "0", "1", "srun", "A="+strings.Repeat("b", maxString-3)),
			want: &Call{Dir: "/", Args: []string{"srun"}, Env: []string{"A=" + strings.Repeat("b", maxString-3)}}},
		{name: "too many strings", in: describeRequest("/", "0", "1", "srun"+strings.Repeat("\x00a=", 600_000)), errs: "600004 strings"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ParseCall(tc.in)
			if tc.errs != "" {
				if !errors.Is(err, ErrCall) || !strings.Contains(err.Error(), tc.errs) {
					t.Errorf("got %v, want %q", err, tc.errs)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %+v, %v, want %+v", got, err, tc.want)
			}
		})
	}
}

// TestReadCall: ReadCall reads only files that cannot change and cannot block.
func TestReadCall(t *testing.T) {
	memfd := func(seals int) *os.File {
		fd, err := unix.MemfdCreate("srun", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(fd), "memfd")
		t.Cleanup(func() { f.Close() })
		f.Write(describeRequest("/", "0", "1", "srun"))
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
			t.Fatal(err)
		}
		return f
	}
	c, err := ReadCall(memfd(needed))
	if err != nil || len(c.Args) != 1 {
		t.Errorf("ReadCall of a sealed memfd = %v, %v, want one argument", c, err)
	}
	fifo := t.TempDir() + "/fifo"
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, _ := os.OpenFile(fifo, os.O_RDWR, 0)
	null, _ := os.Open(os.DevNull)
	folder, _ := os.Open("/")
	for name, f := range map[string]*os.File{
		"not sealed": memfd(0), "half sealed": memfd(unix.F_SEAL_WRITE), "pipe": pipe, "device": null, "folder": folder,
	} {
		if _, err := ReadCall(f); !errors.Is(err, ErrCall) {
			t.Errorf("ReadCall of file %q: error %v, want ErrCall", name, err)
		}
	}
	pipe.Close()
	null.Close()
	folder.Close()
}

func FuzzParseCall(f *testing.F) {
	f.Add(describeRequest("/home", "27", "2", "srun", "-n4", "A=b"))
	f.Add(describeRequest("", "0", "1", "srun"))
	f.Add([]byte{0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ParseCall(bytes.Clone(b))
		if err != nil {
			if !errors.Is(err, ErrCall) {
				t.Fatal(err)
			}
			return
		}
		if len(c.Args) < 1 || c.Umask&^0o777 != 0 || c.Dir != "" && c.Dir[0] != '/' {
			t.Fatalf("ParseCall returned an invalid call: %+v", c)
		}
		// A call that was parsed can be described, and parsed again.
		words := append([]string{c.Dir, fmt.Sprintf("%o", c.Umask), fmt.Sprint(len(c.Args))}, c.Args...)
		again, err := ParseCall(describeRequest(append(words, c.Env...)...))
		if err != nil || !reflect.DeepEqual(again, c) {
			t.Fatalf("the call parsed again = %+v, %v, want %+v", again, err, c)
		}
	})
}

// TestCallMemory: the memory that the worst call takes in the reading process is a small multiple of its bytes.
func TestCallMemory(t *testing.T) {
	const string3 = 3 + pointer
	call := describeRequest("/", "0", "1", "srun"+strings.Repeat("\x00a=", (maxStrings-1000)/string3))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c, err := ParseCall(call)
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	cost := after.TotalAlloc - before.TotalAlloc
	t.Logf("%d variables in %d bytes cost %d", len(c.Env), len(call), cost)
	if most := uint64(len(call)) * 8; cost > most || cost+uint64(len(call)) > 5*MaxCall {
		t.Errorf("a call of %d bytes costs %d", len(call), cost)
	}
}
