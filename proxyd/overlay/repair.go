// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Connection is the saved state of an end of a TCP connection, from which the end can be made
// again.
type Connection struct {
	Local  netip.AddrPort `json:"local"`
	Remote netip.AddrPort `json:"remote"`

	SendNext    uint32 `json:"send_next"` // number of the byte behind Sent
	ReceiveNext uint32 `json:"receive_next"`
	Sent        []byte `json:"sent,omitempty"` // bytes that were sent and not acknowledged
	// Ended tells that the other end has sent its last byte: ReceiveNext counts the end as a byte. The
	// socket that MakeConnection returns does not know of it.
	Ended bool `json:"ended,omitempty"`
	// Ending tells that this end was shut down and the other end has not acknowledged that: the socket that
	// MakeConnection returns has to be shut down again.
	Ending bool `json:"ending,omitempty"`

	Options    byte   `json:"options"` // TCPI_OPT_*
	Scales     byte   `json:"scales"`  // of the windows, as in tcp_info
	MaxSegment int    `json:"max_segment"`
	Timestamp  int    `json:"timestamp"`
	Window     []byte `json:"window"` // struct tcp_repair_window
}

// Constants of linux/tcp.h, net/tcp_states.h and linux/sockios.h.
const (
	tcpSendQueue = 2

	tcpOptionTimestamps = 1
	tcpOptionSack       = 2
	tcpOptionScale      = 4

	repairMaxSegment = 2
	repairScale      = 3
	repairSack       = 4
	repairTimestamps = 8
	repairWindowSize = 20

	stateEstablished = 1
	stateFinWait1    = 4
	stateFinWait2    = 5
	stateCloseWait   = 8
	stateLastAck     = 9
	stateClosing     = 11

	ioctlUnsent = 0x894B // SIOCOUTQNSD
)

// ErrNotConnected is wrapped by the error of TakeConnection for a socket that has no connection any more.
var ErrNotConnected = errors.New("the socket is not connected")

// TakeConnection returns an end of a connection, the bytes that had arrived and were not read, and the bytes
// that were written and not sent. The network of the capsule is locked, and no process uses the socket
// meanwhile. The connection itself does not change.
func TakeConnection(f *os.File) (c *Connection, unread, unsent []byte, err error) {
	fd := int(f.Fd())
	c = &Connection{}
	if c.Local, c.Remote, err = readSocketAddresses(fd); err != nil {
		return nil, nil, nil, fmt.Errorf("%w: %w", ErrNotConnected, err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_TCP, unix.TCP_REPAIR, tcpRepairOn); err != nil {
		return nil, nil, nil, os.NewSyscallError("setsockopt TCP_REPAIR", err)
	}
	unread, unsent, err = c.takeQueues(fd)
	err = errors.Join(err,
		os.NewSyscallError("TCP_REPAIR_QUEUE", unix.SetsockoptInt(fd, unix.SOL_TCP, unix.TCP_REPAIR_QUEUE, tcpNoQueue)),
		os.NewSyscallError("TCP_REPAIR", unix.SetsockoptInt(fd, unix.SOL_TCP, unix.TCP_REPAIR, tcpRepairOffSilent)))
	if err != nil {
		return nil, nil, nil, fmt.Errorf("connection to %s: %w", c.Remote, err)
	}
	return c, unread, unsent, nil
}

// takeQueues fills c, from a socket in repair.
func (c *Connection) takeQueues(fd int) (unread, unsent []byte, err error) {
	info := make([]byte, 8) // state, ca_state, retransmits, probes, backoff, options, scales
	c.Window = make([]byte, repairWindowSize)
	if err := errors.Join(tcpOption(fd, unix.TCP_INFO, info), tcpOption(fd, unix.TCP_REPAIR_WINDOW, c.Window)); err != nil {
		return nil, nil, err
	}
	state := int(info[0])
	c.Options, c.Scales = info[5], info[6]
	if !slices.Contains([]int{stateEstablished, stateFinWait1, stateFinWait2, stateCloseWait, stateLastAck, stateClosing}, state) {
		return nil, nil, fmt.Errorf("%w: state %d", ErrNotConnected, state)
	}
	c.Ended = state == stateCloseWait || state == stateLastAck || state == stateClosing
	c.Ending = state == stateFinWait1 || state == stateLastAck || state == stateClosing
	if c.MaxSegment, err = unix.GetsockoptInt(fd, unix.SOL_TCP, unix.TCP_MAXSEG); err != nil {
		return nil, nil, os.NewSyscallError("TCP_MAXSEG", err)
	}
	if c.Timestamp, err = unix.GetsockoptInt(fd, unix.SOL_TCP, unix.TCP_TIMESTAMP); err != nil {
		return nil, nil, os.NewSyscallError("TCP_TIMESTAMP", err)
	}
	waiting, err := unix.IoctlGetInt(fd, unix.SIOCINQ)
	if err != nil {
		return nil, nil, os.NewSyscallError("SIOCINQ", err)
	}
	if c.ReceiveNext, unread, err = peekQueue(fd, tcpRecvQueue, waiting); err != nil {
		return nil, nil, err
	}
	kept, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ)
	if err != nil {
		return nil, nil, os.NewSyscallError("SIOCOUTQ", err)
	}
	later, err := unix.IoctlGetInt(fd, ioctlUnsent)
	if err != nil {
		return nil, nil, os.NewSyscallError("SIOCOUTQNSD", err)
	}
	if c.Ending { // the end counts as a byte
		kept, later = kept-1, max(0, later-1)
	}
	next, bytes, err := peekQueue(fd, tcpSendQueue, kept)
	if err != nil {
		return nil, nil, err
	}
	if c.Ending {
		next--
	}
	c.Sent, unsent = bytes[:kept-later], bytes[kept-later:]
	c.SendNext = next - uint32(later)
	return unread, unsent, nil
}

// peekQueue returns the number of the byte behind a queue of a socket in repair, and the n bytes of the queue.
func peekQueue(fd, queue, n int) (next uint32, b []byte, err error) {
	if err := unix.SetsockoptInt(fd, unix.SOL_TCP, unix.TCP_REPAIR_QUEUE, queue); err != nil {
		return 0, nil, os.NewSyscallError("TCP_REPAIR_QUEUE", err)
	}
	number, err := unix.GetsockoptInt(fd, unix.SOL_TCP, unix.TCP_QUEUE_SEQ)
	if err != nil {
		return 0, nil, os.NewSyscallError("TCP_QUEUE_SEQ", err)
	}
	if n == 0 {
		return uint32(number), nil, nil
	}
	b = make([]byte, n)
	got, _, err := unix.Recvfrom(fd, b, unix.MSG_PEEK|unix.MSG_DONTWAIT)
	if err != nil {
		return 0, nil, os.NewSyscallError("recv", err)
	}
	if got != n {
		return 0, nil, fmt.Errorf("queue %d has %d bytes, and shows %d", queue, n, got)
	}
	return uint32(number), b, nil
}

// MakeConnection makes an end of a connection again, in the capsule of the process pid. The network of the capsule is locked:
// the other end must not get a packet before both ends are there. The socket may have any local address, as
// an accepted socket of Divert's listener.
func MakeConnection(pid int, c *Connection) (f *os.File, err error) {
	err = withinNetworkNamespace(pid, func() (err error) {
		f, err = c.makeSocket()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("connection from %s to %s: %w", c.Local, c.Remote, err)
	}
	return f, nil
}

func (c *Connection) makeSocket() (*os.File, error) {
	if !c.Local.Addr().Is4() || !c.Remote.Addr().Is4() || len(c.Window) != repairWindowSize {
		return nil, errors.New("not a connection")
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	f := os.NewFile(uintptr(fd), "connection to "+c.Local.String())
	set := func(level, option, value int) func() error {
		return func() error { return unix.SetsockoptInt(fd, level, option, value) }
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"TCP_REPAIR", set(unix.SOL_TCP, unix.TCP_REPAIR, tcpRepairOn)},
		{"IP_TRANSPARENT", set(unix.SOL_IP, unix.IP_TRANSPARENT, 1)},
		{"SO_SNDBUFFORCE", func() error {
			if len(c.Sent) == 0 {
				return nil
			}
			return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 4*len(c.Sent)+64<<10)
		}},
		{"bind", func() error { return unix.Bind(fd, sockaddrOf(c.Local)) }},
		{"queue to receive", set(unix.SOL_TCP, unix.TCP_REPAIR_QUEUE, tcpRecvQueue)},
		{"number to receive", set(unix.SOL_TCP, unix.TCP_QUEUE_SEQ, int(int32(c.ReceiveNext)))},
		{"queue to send", set(unix.SOL_TCP, unix.TCP_REPAIR_QUEUE, tcpSendQueue)},
		{"number to send", set(unix.SOL_TCP, unix.TCP_QUEUE_SEQ, int(int32(c.SendNext-uint32(len(c.Sent)))))},
		{"connect", func() error { return unix.Connect(fd, sockaddrOf(c.Remote)) }},
		{"options", func() error {
			return unix.SetsockoptString(fd, unix.SOL_TCP, unix.TCP_REPAIR_OPTIONS, c.repairOptions())
		}},
		{"TCP_TIMESTAMP", func() error {
			if c.Options&tcpOptionTimestamps == 0 {
				return nil
			}
			return unix.SetsockoptInt(fd, unix.SOL_TCP, unix.TCP_TIMESTAMP, c.Timestamp)
		}},
		{"bytes that were sent", func() error { return writeAll(fd, c.Sent) }},
		{"window", func() error {
			return unix.SetsockoptString(fd, unix.SOL_TCP, unix.TCP_REPAIR_WINDOW, string(c.Window))
		}},
		{"no queue", set(unix.SOL_TCP, unix.TCP_REPAIR_QUEUE, tcpNoQueue)},
		{"end of TCP_REPAIR", set(unix.SOL_TCP, unix.TCP_REPAIR, tcpRepairOffSilent)},
	} {
		if err := step.do(); err != nil {
			f.Close()
			return nil, fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return f, nil
}

// repairOptions returns an array of struct tcp_repair_opt.
func (c *Connection) repairOptions() string {
	var b []byte
	add := func(code, value uint32) {
		b = binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint32(b, code), value)
	}
	add(repairMaxSegment, uint32(c.MaxSegment))
	if c.Options&tcpOptionScale != 0 {
		add(repairScale, uint32(c.Scales&0xf)|uint32(c.Scales>>4)<<16)
	}
	if c.Options&tcpOptionSack != 0 {
		add(repairSack, 0)
	}
	if c.Options&tcpOptionTimestamps != 0 {
		add(repairTimestamps, 0)
	}
	return string(b)
}

func sockaddrOf(a netip.AddrPort) *unix.SockaddrInet4 {
	return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
}

func writeAll(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.SendmsgN(fd, b, nil, nil, unix.MSG_DONTWAIT)
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
