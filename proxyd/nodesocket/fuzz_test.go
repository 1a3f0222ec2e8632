// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package nodesocket

import (
	"bytes"
	"errors"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
)

// FuzzDecode: any user of a node can write a packet. A packet that is understood, encoded and
// decoded again, means the same.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		"end\x00version=1\x00",
		"join\x00version=1\x00job=7\x00step=batch\x00uid=1001\x00gid=1001\x00script=/x y\x00exclude=/a,/b=c\x00",
		"srun\x00version=1\x00key=s0-1\x00", "\x00", "", "a", "a\x00=\x00", "a\x00b=\x00b=\x00", "no\x00reason=two\nlines\x00",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMessage(b)
		if err != nil {
			if !errors.Is(err, errMessage) {
				t.Fatalf("the error %v does not wrap errMessage", err)
			}
			return
		}
		if len(m.keys) != len(m.vals) {
			t.Fatalf("the message has %d keys and %d values", len(m.keys), len(m.vals))
		}
		if again := m.encode(); !bytes.Equal(again, b) {
			t.Fatalf("%q is %q when written again", b, again)
		}
	})
}

// FuzzParseJoin: the plugin passes on variables that users have set. With any values, a join has a
// valid step, and a caller that the kernel named.
func FuzzParseJoin(f *testing.F) {
	f.Add("7", "batch", "1001", "1001", "0", "", "")
	f.Add("7", "3", "1001", "1001", "4294967295", "s0-1", "/a")
	f.Add("4294967296", "-5", "", "x", "-1", "../../etc", "a\x01b")
	f.Add("", "interactive ", "0x10", "1e3", "+1", strings.Repeat("k", 5000), ",")
	f.Fuzz(func(t *testing.T, job, step, uid, gid, task, key, exclude string) {
		m := newMessage(verbJoin, "version", version, "job", job, "step", step, "uid", uid, "gid", gid, "task", task, "key", key, "exclude", exclude, "nonsense", "x")
		who := Peer{PID: 12, UID: 0}
		j, err := parseJoin(m, who)
		if err != nil {
			if !errors.Is(err, errMessage) {
				t.Fatalf("the error %v does not wrap errMessage", err)
			}
			return
		}
		if n, err := strconv.ParseUint(job, 10, 32); err != nil || uint32(n) != j.Job {
			t.Errorf("job %q was parsed as %d", job, j.Job)
		}
		if _, err := strconv.ParseUint(step, 10, 32); err != nil && step != "batch" {
			t.Errorf("step %q was taken", step)
		}
		if j.PID != who.PID || j.Task < 0 || j.Key != key {
			t.Errorf("join %+v; want the PID of the caller, a task of 0 or more and the key that was sent", j)
		}
		if want := []string{"exclude"}; !slices.Equal(slices.Sorted(maps.Keys(j.Options)), want) {
			t.Errorf("options of the join = %v, want exclude", j.Options)
		}
	})
}

// FuzzPeek sends a packet with descriptors as an ordinary user would. The door reads the packet,
// and whether descriptors came with it, and receives no descriptor. Nor does the daemon, of packets
// for root's socket.
func FuzzPeek(f *testing.F) {
	f.Add([]byte("srun\x00version=1\x00key=\x00"), 5)
	f.Add([]byte("srun\x00version=2\x00"), 3)
	f.Add([]byte("x"), 16)
	f.Add([]byte("join\x00"), 40)
	f.Add(bytes.Repeat([]byte("a=b\x00"), 17000), 1)
	s := &Server{version: "test", log: slog.New(slog.DiscardHandler)}
	f.Fuzz(func(t *testing.T, packet []byte, descriptors int) {
		if descriptors < 0 || descriptors > 250 || len(packet) == 0 || len(packet) > 100<<10 {
			t.Skip()
		}
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		// A file of this packet's alone: the garbage collector may close files of other tests at any
		// moment.
		sent, err := unix.MemfdCreate(sentName, unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		var rights []byte
		if descriptors > 0 {
			rights = unix.UnixRights(slices.Repeat([]int{sent}, descriptors)...)
		}
		if err := unix.Sendmsg(fds[0], packet, rights, nil, 0); err != nil {
			t.Fatal(err)
		}
		c, err := localsock.TakeConn(fds[1])
		if err != nil {
			t.Fatal(err)
		}
		seen, files, err := peekPacket(c)
		if long := len(packet) > maxPacket; (err != nil) != long {
			t.Errorf("peek at a packet of %d bytes: error %v", len(packet), err)
		} else if !long && (!bytes.Equal(seen, packet) || files != (descriptors > 0)) {
			t.Errorf("%d descriptors and %q became %v and %q", descriptors, packet, files, seen)
		}
		m, err := s.readRequest(c)
		if err == nil && (descriptors > 0 || m.vals["version"] != version) {
			t.Errorf("version %q with %d descriptors was understood", m.vals["version"], descriptors)
		}
		if n := openSent(t); n > 1 {
			t.Errorf("%d of %d descriptors were received", n-1, descriptors)
		}
		c.Close()
		unix.Close(sent)
		unix.Close(fds[0])
	})
}

const sentName = "sent-to-hear"

// openSent counts this process's descriptors of the file that FuzzPeek sends.
func openSent(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(to, "/memfd:"+sentName) {
			n++
		}
	}
	return n
}

// TestOldVerbs shows that runners which an older proxyd has started are understood.
func TestOldVerbs(t *testing.T) {
	for packet, want := range map[string]string{
		"ended\x00version=1\x00dir=/run/s0-1\x00":        verbSrunFailed,
		"says\x00version=1\x00dir=/run/s0-1\x00":         verbSrunMessage,
		"srun-failed\x00version=1\x00dir=/run/s0-1\x00":  verbSrunFailed,
		"srun-message\x00version=1\x00dir=/run/s0-1\x00": verbSrunMessage,
	} {
		m, err := decodeMessage([]byte(packet))
		if err != nil || m.verb != want || m.vals["dir"] != "/run/s0-1" {
			t.Errorf("decoded %q: %+v, %v", packet, m, err)
		}
	}
}
