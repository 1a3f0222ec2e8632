// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"bytes"
	"errors"
	"testing"

	"github.com/checkpoint-restore/go-criu/v7/crit/images/fdinfo"
	"github.com/checkpoint-restore/go-criu/v7/crit/images/pstree"
	"github.com/checkpoint-restore/go-criu/v7/crit/images/regfile"
	"github.com/checkpoint-restore/go-criu/v7/crit/images/tty"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// encodeEntries builds an image file of messages.
func encodeEntries(t *testing.T, magic uint32, messages ...proto.Message) []byte {
	t.Helper()
	image := encodeImage(magic)
	for _, m := range messages {
		b, err := (proto.MarshalOptions{AllowPartial: true}).Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		image = appendEntry(image, b)
	}
	return image
}

// terminalInfo describes the driving side of a terminal.
func terminalInfo(id, number, session, foreground uint32) *tty.TtyInfoEntry {
	return &tty.TtyInfoEntry{
		Id: proto.Uint32(id), Type: tty.TtyType_PTY.Enum(), Locked: proto.Bool(false), Exclusive: proto.Bool(false),
		PacketMode: proto.Bool(false), Sid: proto.Uint32(session), Pgrp: proto.Uint32(foreground),
		Rdev: proto.Uint32(uint32(unix.Mkdev(5, 2))), Pty: &tty.TtyPtyEntry{Index: proto.Uint32(number)},
		Termios: &tty.TermiosEntry{
			CIflag: proto.Uint32(0), COflag: proto.Uint32(0), CCflag: proto.Uint32(0), CLflag: proto.Uint32(0),
			CLine: proto.Uint32(0), CIspeed: proto.Uint32(0), COspeed: proto.Uint32(0),
		},
		Winsize: &tty.WinsizeEntry{WsRow: proto.Uint32(24), WsCol: proto.Uint32(80), WsXpixel: proto.Uint32(0), WsYpixel: proto.Uint32(0)},
	}
}

// TestReadTerminals: the terminals of an image come by their numbers, with their paths.
func TestReadTerminals(t *testing.T) {
	file := func(id, path, info uint32) *fdinfo.FileEntry {
		return &fdinfo.FileEntry{Type: fdinfo.FdTypes_TTY.Enum(), Id: proto.Uint32(id), Tty: &tty.TtyFileEntry{
			Id: proto.Uint32(id), TtyInfoId: proto.Uint32(info), Flags: proto.Uint32(unix.O_RDWR), Fown: noOwner(), RegfId: proto.Uint32(path),
		}}
	}
	path := func(id uint32, name string) *fdinfo.FileEntry {
		return &fdinfo.FileEntry{Type: fdinfo.FdTypes_REG.Enum(), Id: proto.Uint32(id), Reg: &regfile.RegFileEntry{
			Id: proto.Uint32(id), Flags: proto.Uint32(0), Pos: proto.Uint64(0), Fown: noOwner(), Name: proto.String(name),
		}}
	}
	hungUp := terminalInfo(19, 9, 0, 0)
	hungUp.Termios = nil
	all, err := readTerminals(memory{
		terminalsName: encodeEntries(t, terminalsMagic, terminalInfo(7, 3, 40, 41), terminalInfo(3, 1, 0, 0), hungUp),
		filesName: encodeEntries(t, filesMagic, path(1, "/dev/pts/ptmx"), file(2, 1, 7), path(3, "/image/dev/ptmx"), file(4, 3, 3),
			path(5, "/dev/pts/ptmx"), file(6, 5, 19), path(7, "/tmp/ptmx")),
	})
	if err != nil || len(all) != 2 {
		t.Fatalf("readTerminals = %+v, %v, want two terminals", all, err)
	}
	for i, want := range []struct {
		session     int
		child, name string
	}{{0, "/image/dev/pts/1", "image/dev/singularity-terminal-1"}, {40, "/dev/pts/3", "dev/pts/singularity-terminal-3"}} {
		if got := all[i]; got.session != want.session || got.childPath() != want.child || got.handedName() != want.name || got.size.Col != 80 {
			t.Errorf("terminal %+v has the paths %s and %s, want %+v", got, got.childPath(), got.handedName(), want)
		}
	}
	if all, err := readTerminals(memory{}); err != nil || all != nil {
		t.Errorf("of an image without terminals: %v, %v", all, err)
	}
	if _, err := readTerminals(memory{terminalsName: []byte("nothing")}); !errors.Is(err, errImage) {
		t.Errorf("of a damaged image: %v", err)
	}
}

// TestNameForegrounds: a group that has ended is replaced by the session's leader, and the other entries stay.
func TestNameForegrounds(t *testing.T) {
	process := &pstree.PstreeEntry{
		Pid: proto.Uint32(40), Ppid: proto.Uint32(0), Pgid: proto.Uint32(40), Sid: proto.Uint32(40), Threads: []uint32{40},
	}
	r := &restorer{source: memory{pstreeName: encodeEntries(t, pstreeMagic, process)}}
	for foreground, want := range map[uint32]uint32{40: 40, 41: 40} {
		in := encodeEntries(t, terminalsMagic, terminalInfo(7, 3, 40, foreground), terminalInfo(3, 1, 0, 0))
		out, size, err := r.nameForegrounds(bytes.NewReader(in))
		if err != nil || size != int64(len(in)) {
			t.Fatalf("size %d of %d, %v", size, len(in), err)
		}
		wanted := encodeEntries(t, terminalsMagic, terminalInfo(7, 3, 40, want), terminalInfo(3, 1, 0, 0))
		var got bytes.Buffer
		if _, err := got.ReadFrom(out); err != nil || !bytes.Equal(got.Bytes(), wanted) {
			t.Errorf("with %d in front: %x, want %x, %v", foreground, got.Bytes(), wanted, err)
		}
	}
}
