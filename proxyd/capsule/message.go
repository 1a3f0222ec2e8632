// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// Wardens and init exchange packets of messageSize bytes over an abstract SOCK_SEQPACKET socket.
// slurm-spank/warden/message.h is the other end.
//
//	warden                                       init
//	──────                                       ────
//	start name, first, pidfd of the steward,
//	pidfd of itself ───────────────────────────► is it a child of mine, of that user?
//	                                             puts it into its own cgroup
//	                                        ◄──  goAhead | refused errno
//	signal number ─────────────────────────────► sends it to all of the program's processes
//	                                        ◄──  status, when the cgroup is gone
//
//	                                        ◄──  input 1: take all standard input that comes;
//	                                             input 0: no more than the program's pipe
//	                                             has room for. An older warden ignores both
//	of a program that is being captured:    ◄──  captured
//	                                        ◄──  status, when the maker orders it
//	of a program that is restored:
//	restore name, fds 0 1 2, pidfd of itself ──► keeps them for the maker
//	                                        ◄──  goAhead, pidfd of the steward
//
//	closes before status ──────────────────────► kills the program, unless it is captured
const (
	kindStart   = 1
	kindRestore = 2
	kindSignal  = 3

	kindGo       = 16
	kindStatus   = 17
	kindCaptured = 18
	kindRefused  = 19
	kindInput    = 20
)

const (
	wardenSocket   = "singularity-slurm" // after a NUL byte
	messageVersion = 1
	messageSize    = 64
	nameSize       = 48 // with at least a NUL
	maxMessageFDs  = 4
)

var errMessage = errors.New("not a warden's message")

// message is a packet in either direction.
type message struct {
	kind  uint32
	value int32  // kindSignal: the signal's number; kindStatus: the status; kindRefused: errno; kindInput; else 0
	first int32  // kindStart: PID of the program itself; else 0
	name  string // kindStart, kindRestore
}

func (m message) encode() []byte {
	b := make([]byte, messageSize)
	binary.NativeEndian.PutUint32(b[0:], messageVersion)
	binary.NativeEndian.PutUint32(b[4:], m.kind)
	binary.NativeEndian.PutUint32(b[8:], uint32(m.value))
	binary.NativeEndian.PutUint32(b[12:], uint32(m.first))
	copy(b[16:messageSize-1], m.name)
	return b
}

// decodeMessage accepts exactly what a warden may send; every error is an errMessage.
func decodeMessage(b []byte) (message, error) {
	if len(b) != messageSize {
		return message{}, fmt.Errorf("%w: %d bytes", errMessage, len(b))
	}
	if v := binary.NativeEndian.Uint32(b[0:]); v != messageVersion {
		return message{}, fmt.Errorf("%w: version %d", errMessage, v)
	}
	m := message{
		kind:  binary.NativeEndian.Uint32(b[4:]),
		value: int32(binary.NativeEndian.Uint32(b[8:])),
		first: int32(binary.NativeEndian.Uint32(b[12:])),
	}
	name, padding, ended := strings.Cut(string(b[16:]), "\x00")
	if !ended || strings.Trim(padding, "\x00") != "" {
		return message{}, fmt.Errorf("%w: name is not padded", errMessage)
	}
	m.name = name
	if reason := m.invalidReason(); reason != "" {
		return message{}, fmt.Errorf("%w: kind %d: %s", errMessage, m.kind, reason)
	}
	return m, nil
}

// invalidReason returns why a warden's message is invalid, or "".
func (m message) invalidReason() string {
	switch m.kind {
	case kindStart, kindRestore:
		switch {
		case !validName(m.name):
			return fmt.Sprintf("name %q", m.name)
		case m.value != 0 || (m.first > 1) != (m.kind == kindStart):
			return "numbers"
		}
	case kindSignal:
		if m.value < 1 || m.value > maxSignal || m.first != 0 || m.name != "" {
			return fmt.Sprintf("signal %d", m.value)
		}
	default:
		return "unknown"
	}
	return ""
}

const maxSignal = 64

// validName tells whether a text is a valid name of a program: 1 to 47 of [A-Za-z0-9._+-].
func validName(s string) bool {
	if s == "" || len(s) >= nameSize {
		return false
	}
	for _, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && !strings.ContainsRune("._+-", rune(c)) {
			return false
		}
	}
	return true
}
