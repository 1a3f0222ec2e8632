// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestAttachLayout: attach.h has the layout that this package expects.
func TestAttachLayout(t *testing.T) {
	header, err := os.ReadFile("attach.h")
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`(?s)/\*.*?\*/`).ReplaceAllString(string(header), "")
	var program strings.Builder
	fmt.Fprintln(&program, "#include <stdio.h>\n#include \"attach.h\"\nint main(void)\n{")
	names := regexp.MustCompile(`(?m)^#define SING_(\w+) [0-9]\S*|^\tSING_(\w+) = `).FindAllStringSubmatch(text, -1)
	for _, m := range names {
		fmt.Fprintf(&program, "\tprintf(\"%s%s %%llu\\n\", (unsigned long long)SING_%s%s);\n", m[1], m[2], m[1], m[2])
	}
	fmt.Fprintln(&program, "\tprintf(\"ask %zu\\nlong %zu\\n\", sizeof(struct sing_ask), sizeof(struct sing_long));")
	fmt.Fprintf(&program, "\treturn SING_DEVICE_ENV[0] != '%c';\n}\n", DeviceEnv[0])
	want := map[string]uint64{
		"ATTACH_MAGIC": attachMagic, "ATTACH_VERSION": attachVersion, "REACHABLE": reachableFlag,
		"OP_LONG": OpLong, "OP_MISSED": OpMissed, "OP_EXIT": OpExit, "OP_OURS": opOurs,
		"COUNT_KIND": countKind, "COUNT_PEER": countPeer, "VISIBLE_MAX": visibleMax, "VISIBLE_UNSET": visibleUnset, "ask": askSize, "long": longSize,
	}
	for line := range strings.Lines(runC(t, program.String())) {
		var name string
		var n uint64
		if _, err := fmt.Sscan(line, &name, &n); err != nil {
			t.Fatal(err)
		}
		if w, ok := want[name]; !ok || w != n {
			t.Errorf("%s is %d in attach.h, %d in this package (known: %v)", name, n, w, ok)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("attach.h lacks the numbers %v", want)
	}
	for _, name := range []string{DeviceEnv, NamesEnv, BlasEnv, BlasNative, BlasVendor} {
		if !strings.Contains(string(header), `"`+name+`"`) {
			t.Errorf("attach.h has no %s", name)
		}
	}
}

// connectPair returns a server's connection and a process's.
func connectPair(t *testing.T) (server, process *net.UnixConn) {
	t.Helper()
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	process, err = net.DialUnix("unixpacket", nil, listener.Addr().(*net.UnixAddr))
	if err != nil {
		t.Fatal(err)
	}
	server, err = listener.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close(); process.Close() })
	return server, process
}

var probe = [2]uint32{attachMagic, 0}

func askingMessage(magic, version uint32) []byte {
	b := binary.LittleEndian.AppendUint32(nil, magic)
	b = binary.LittleEndian.AppendUint32(b, version)
	b = binary.LittleEndian.AppendUint64(b, uint64(uintptr(unsafe.Pointer(&probe))))
	b = binary.LittleEndian.AppendUint32(b, 3)
	b = binary.LittleEndian.AppendUint32(b, visibleUnset)
	return append(b, "1,0"...)
}

func TestReceive(t *testing.T) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	good := askingMessage(attachMagic, attachVersion)
	for _, c := range []struct {
		name string
		ask  []byte
		fds  []int
		err  string
	}{
		{"a shim", good, pipe[:1], ""},
		{"no descriptor", good, nil, "27 bytes and 0 descriptors"},
		{"two descriptors", good, []int{pipe[0], pipe[0]}, "27 bytes and 2 descriptors"},
		{"many descriptors", good, []int{pipe[0], pipe[0], pipe[0], pipe[0], pipe[0], pipe[0], pipe[0], pipe[0], pipe[0], pipe[0]}, "27 bytes and 8 descriptors"},
		{"no pipe", good, []int{int(file.Fd())}, "no pipe"},
		{"too short", good[:23], pipe[:1], "23 bytes"},
		{"less than it says", good[:26], pipe[:1], "26 bytes"},
		{"too long", append(good[:27:27], 0), pipe[:1], "28 bytes"},
		{"much too long", append(good[:24:24], make([]byte, 1<<13)...), pipe[:1], "not what a shim asks"},
		{"another magic", askingMessage(attachMagic+1, attachVersion), pipe[:1], "not what a shim asks"},
		{"another version", askingMessage(attachMagic, 9), pipe[:1], "version 9, not 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server, process := connectPair(t)
			if _, _, err := process.WriteMsgUnix(c.ask, unix.UnixRights(c.fds...), nil); err != nil {
				t.Fatal(err)
			}
			n, err := Receive(server)
			if c.err != "" {
				if !errors.Is(err, ErrNoAsk) || !strings.Contains(err.Error(), c.err) {
					t.Errorf("Receive: %v, want ErrNoAsk with %s", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer n.Close()
			checkWelcome(t, n, process)
		})
	}
	unix.Close(pipe[1])
}

// checkWelcome gives a newcomer a ring, and then refuses it.
func checkWelcome(t *testing.T, n *Newcomer, process *net.UnixConn) {
	t.Helper()
	if n.Visible == nil || *n.Visible != "1,0" || n.Names != "" {
		t.Errorf("Visible = %v, Names = %q, want 1,0 and no names", n.Visible, n.Names)
	}
	if !n.Reaches(Process(os.Getpid())) {
		t.Error("a process does not reach itself")
	}
	r, err := Create(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := n.Welcome(r, true); err != nil {
		t.Fatal(err)
	}
	if err := n.Refuse(unix.EBUSY); err != nil {
		t.Fatal(err)
	}
	var b, oob [64]byte
	size, rights, _, _, err := process.ReadMsgUnix(b[:], oob[:])
	if err != nil || size != 16 || binary.LittleEndian.Uint64(b[:]) != attachVersion<<32 || binary.LittleEndian.Uint64(b[8:]) != reachableFlag {
		t.Fatalf("the answer to Welcome: %d bytes, %x, %v", size, b[:size], err)
	}
	fds, err := receivedFDs(oob[:rights])
	if err != nil || len(fds) != 1 {
		t.Fatalf("descriptors with the answer to Welcome: %v, %v, want one", fds, err)
	}
	f := os.NewFile(uintptr(fds[0]), "ring")
	defer f.Close()
	if err := checkMemory(f); err != nil {
		t.Error(err)
	}
	if size, _, _, _, err = process.ReadMsgUnix(b[:], oob[:]); err != nil || size != 16 || unix.Errno(binary.LittleEndian.Uint32(b[:])) != unix.EBUSY {
		t.Errorf("the answer to Refuse: %d bytes, %x, %v, want EBUSY", size, b[:size], err)
	}
}

func TestReceiveNothing(t *testing.T) {
	server, process := connectPair(t)
	process.Close()
	if _, err := Receive(server); err == nil {
		t.Error("a process that had hung up was received")
	}
}

func TestCountKey(t *testing.T) {
	for _, c := range []struct {
		key  uint64
		want Count
	}{
		{5, Count{Comm: 5}},
		{1<<62 | 7, Count{Comm: 7, Kind: CountSend}},
		{1<<62 | 3<<40 | 7, Count{Comm: 7, Kind: CountSend, Peer: 3}},
		{2<<62 | (1<<22-1)<<40 | (1<<40 - 1), Count{Comm: 1<<40 - 1, Kind: CountRecv, Peer: 1<<22 - 1}},
	} {
		if got := ParseCount(c.key); got != c.want || got.Key() != c.key {
			t.Errorf("ParseCount(%#x) = %+v, and its Key is %#x", c.key, got, got.Key())
		}
	}
}

// FuzzOpen: of any bytes that a process writes, Open makes a letter that fits them, or none.
func FuzzOpen(f *testing.F) {
	long := func(address, length, answer, room uint64, op uint32) []byte {
		b := make([]byte, contextSize, contextSize+longSize)
		for _, v := range []uint64{address, length, answer, room} {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
		return binary.LittleEndian.AppendUint64(b, uint64(op))
	}
	at := uint64(uintptr(unsafe.Pointer(&probe)))
	f.Add(uint32(77), []byte("12345678arguments"), true)
	f.Add(uint32(77), []byte("1234"), false)
	f.Add(uint32(OpLong), long(at, 4, at, 4, 77), true)
	f.Add(uint32(OpLong), long(at, 4, at, 4, 77), false)
	f.Add(uint32(OpLong), long(at, 1<<63, at, 4, 77), true)
	f.Add(uint32(OpLong), long(1, 1<<30, at, 1<<62, 77), true)
	f.Add(uint32(OpLong), long(1, 1<<30, at, 4, OpLong), true)
	f.Fuzz(func(t *testing.T, op uint32, args []byte, call bool) {
		m := &Message{Op: op, Args: args, m: &message{}}
		if call {
			m.call = &Call{}
		}
		// No process has this id: memory of a message that Open does not refuse before cannot be read.
		l, _, err := Open(m, Process(1<<30), nil)
		switch {
		case (err == nil) != (l != nil):
			t.Errorf("Open = %v, %v, want a letter or an error", l, err)
		case l != nil && (l.Op == OpLong && len(args) < contextSize || l.Room() > LongestAnswer || len(l.Args) > len(args) || l.Posted == call):
			t.Errorf("Open = %+v, which does not fit the message", l)
		}
	})
}
