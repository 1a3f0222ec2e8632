// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/checkpoint-restore/go-criu/v7/crit/images/eventfd"
	"github.com/checkpoint-restore/go-criu/v7/crit/images/fdinfo"
	"github.com/checkpoint-restore/go-criu/v7/crit/images/fown"
	"github.com/checkpoint-restore/go-criu/v7/crit/images/regfile"
	sk_opts "github.com/checkpoint-restore/go-criu/v7/crit/images/sk-opts"
	sk_unix "github.com/checkpoint-restore/go-criu/v7/crit/images/sk-unix"
	"github.com/checkpoint-restore/go-criu/v7/crit/images/timerfd"
	"github.com/checkpoint-restore/go-criu/v7/crit/images/tty"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// noOwner is CRIU's record of a file for which the kernel names no process.
func noOwner() *fown.FownEntry {
	none := proto.Uint32(0)
	return &fown.FownEntry{Uid: none, Euid: none, Signum: none, PidType: none, Pid: none}
}

// TestRewriteFiles: only connections lose their names, sockets that listen come first, a periodic timer that has
// expired is armed, a socket is bound where its file is, an eventfd that counts as a semaphore is inherited, and a terminal that was external gets its path;
// every other byte stays.
func TestRewriteFiles(t *testing.T) {
	socket := func(state, kind int, name string, deleted bool) []byte {
		none := proto.Uint32(0)
		return encodeEntry(&fdinfo.FileEntry{Type: fdinfo.FdTypes_UNIXSK.Enum(), Id: none, Usk: &sk_unix.UnixSkEntry{
			Id: none, Ino: proto.Uint32(8), Type: proto.Uint32(uint32(kind)), State: proto.Uint32(uint32(state)), Flags: none, Uflags: none,
			Backlog: none, Peer: proto.Uint32(9), Name: []byte(name), Deleted: proto.Bool(deleted),
			Fown: noOwner(),
			Opts: &sk_opts.SkOptsEntry{
				SoSndbuf: none, SoRcvbuf: none, SoSndTmoSec: proto.Uint64(0), SoSndTmoUsec: proto.Uint64(0),
				SoRcvTmoSec: proto.Uint64(0), SoRcvTmoUsec: proto.Uint64(0),
			},
		}})
	}
	timer := func(ticks, value, interval uint64) []byte {
		none, zero := proto.Uint32(0), proto.Uint64(0)
		return encodeEntry(&fdinfo.FileEntry{Type: fdinfo.FdTypes_TIMERFD.Enum(), Id: none, Tfd: &timerfd.TimerfdEntry{
			Id: none, Flags: none, Clockid: none, Ticks: &ticks, SettimeFlags: none, Vsec: zero, Vnsec: &value, Isec: zero, Insec: &interval,
			Fown: noOwner(),
		}})
	}
	terminal := func(path *uint32) []byte {
		return encodeEntry(&fdinfo.FileEntry{Type: fdinfo.FdTypes_TTY.Enum(), Id: proto.Uint32(7), Tty: &tty.TtyFileEntry{
			Id: proto.Uint32(7), TtyInfoId: proto.Uint32(0), Flags: proto.Uint32(unix.O_RDWR), RegfId: path, Fown: noOwner(),
		}})
	}
	event := func(id uint32) []byte {
		return encodeEntry(&fdinfo.FileEntry{Type: fdinfo.FdTypes_EVENTFD.Enum(), Id: &id, Efd: &eventfd.EventfdFileEntry{
			Id: &id, Flags: proto.Uint32(unix.O_RDWR), Fown: noOwner(), Counter: proto.Uint64(2),
		}})
	}
	semaphore := encodeEntry(&fdinfo.FileEntry{Type: fdinfo.FdTypes_REG.Enum(), Id: proto.Uint32(6), Reg: &regfile.RegFileEntry{
		Id: proto.Uint32(6), Flags: proto.Uint32(unix.O_RDWR), Pos: proto.Uint64(0), Fown: noOwner(), Name: proto.String("/singularity-semaphore-6"),
	}})
	pathOf := encodeEntry(&fdinfo.FileEntry{Type: fdinfo.FdTypes_REG.Enum(), Id: proto.Uint32(10), Reg: &regfile.RegFileEntry{
		Id: proto.Uint32(10), Flags: proto.Uint32(unix.O_RDWR), Pos: proto.Uint64(0), Fown: noOwner(), Name: proto.String("/dev/tty"),
	}})
	const unconnected = 7 // TCP_CLOSE
	moved := func(id uint32, state int, name string, deleted bool) []byte {
		var m fdinfo.FileEntry
		if err := proto.Unmarshal(socket(state, unix.SOCK_STREAM, name, true)[4:], &m); err != nil {
			t.Fatal(err)
		}
		m.Usk.Ino = &id
		if !deleted {
			m.Usk.Deleted = nil
		}
		return encodeEntry(&m)
	}
	var before, after [][]byte
	for _, c := range []struct{ before, after []byte }{
		{socket(established, unix.SOCK_STREAM, "/tmp/s", false), socket(established, unix.SOCK_STREAM, "", false)},
		{socket(established, unix.SOCK_SEQPACKET, "s", false), socket(established, unix.SOCK_SEQPACKET, "", false)},
		{before: socket(established, unix.SOCK_STREAM, "", false)},
		{before: socket(established, unix.SOCK_STREAM, "\x00abstract", false)},
		{before: socket(established, unix.SOCK_STREAM, "/tmp/s", true)},
		{before: socket(established, unix.SOCK_DGRAM, "/tmp/s", false)},
		{before: socket(listening, unix.SOCK_STREAM, "/tmp/s", false)},
		{moved(11, unconnected, "/tmp/s.x\x00", true), moved(11, unconnected, "/tmp/s\x00", false)},
		{before: moved(12, unconnected, "/tmp/s.x\x00", true)},
		{timer(1, 0, 7), timer(1, 7, 7)},
		{before: timer(0, 0, 7)}, // not armed by the program
		{before: timer(1, 5, 7)},
		{before: timer(1, 0, 0)}, // fires once
		{event(6), semaphore},
		{before: event(5)},
		{before: terminal(proto.Uint32(9))},
		{before: []byte{5, 0, 0, 0, 0x08, 0xc8, 0x01, 0x10, 0x09}}, // of an unknown kind
		{terminal(nil), slices.Concat(terminal(proto.Uint32(10)), pathOf)},
	} {
		if c.after == nil {
			c.after = c.before
		}
		before, after = append(before, c.before), append(after, c.after)
	}
	listener := slices.IndexFunc(after, func(b []byte) bool { return bytes.Equal(b, socket(listening, unix.SOCK_STREAM, "/tmp/s", false)) })
	after = slices.Concat(after[listener:listener+1], after[:listener], after[listener+1:])
	before = append(before, moved(11, listening, "/tmp/s.x\x00", true))
	after = slices.Insert(after, 1, moved(11, listening, "/tmp/s\x00", false))
	in := encodeImage(filesMagic, before...)
	changes := fileChanges{nameOf: (&restorer{}).nameOf, moved: map[uint32]string{11: "/tmp/s"}, semaphores: map[uint32]bool{6: true}}
	out, size, err := changes.rewriteFiles(bytes.NewReader(in))
	if err != nil || size != int64(len(in)) {
		t.Fatalf("size %d, want %d: %v", size, len(in), err)
	}
	if got, _ := io.ReadAll(out); !bytes.Equal(got, encodeImage(filesMagic, after...)) {
		t.Errorf("got %x, want %x", got, encodeImage(filesMagic, after...))
	}
	for _, bad := range [][]byte{nil, in[:5], in[:len(in)-1], slices.Concat(in, []byte{3, 0, 0, 0, 0xff, 0xff, 0xff})} {
		if _, _, err := changes.rewriteFiles(bytes.NewReader(bad)); !errors.Is(err, errImage) {
			t.Errorf("%d bytes: error %v", len(bad), err)
		}
	}
}
