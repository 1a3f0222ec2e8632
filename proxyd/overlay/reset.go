// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Constants of linux/tcp.h.
const (
	tcpRecvQueue       = 1
	tcpNoQueue         = 0
	tcpRepairOn        = 1
	tcpRepairOffSilent = -1 // TCP_REPAIR_OFF_NO_WP: without a window probe
)

// resetPatience bounds the wait for a reset, which the kernel carries out on the same processor.
const resetPatience = 5 * time.Second

// ResetConnections ends TCP connections of a capsule as a reset from their other ends would end
// them: the program reads the bytes that had arrived, then gets ECONNRESET, or the end of the
// stream if the other end had closed the connection. The packets come from this process and reach
// only the capsule, also if its network is locked. pid is a process of the capsule. connections are
// sockets of the capsule while its programs do not run, because bytes that a program writes while
// the sequence number is read would come back as input.
//
// SOCK_DESTROY of the kernel would be shorter, but programs would get ECONNABORTED, which few of
// them expect on a connection.
func ResetConnections(pid int, connections []*os.File) error {
	if len(connections) == 0 {
		return nil
	}
	err := withinNetworkNamespace(pid, func() error {
		raw, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		if err != nil {
			return os.NewSyscallError("socket", err)
		}
		defer unix.Close(raw)
		if err := unix.SetsockoptInt(raw, unix.SOL_SOCKET, unix.SO_MARK, criuMark); err != nil {
			return os.NewSyscallError("setsockopt SO_MARK", err)
		}
		var errs []error
		for _, f := range connections {
			errs = append(errs, resetConnection(raw, int(f.Fd())))
		}
		return errors.Join(errs...)
	})
	if err != nil {
		return fmt.Errorf("reset connections of process %d: %w", pid, err)
	}
	return nil
}

// resetConnection resets a connection by a packet that is sent to raw.
func resetConnection(raw, fd int) error {
	local, remote, err := readSocketAddresses(fd)
	if errors.Is(err, unix.ENOTCONN) {
		return nil // closed meanwhile
	}
	if err != nil {
		return err
	}
	sequence, err := nextSequence(fd)
	if err != nil {
		return fmt.Errorf("connection to %s: %w", remote, err)
	}
	to := &unix.SockaddrInet4{Addr: local.Addr().As4()}
	if err := unix.Sendto(raw, resetPacket(remote, local, sequence), 0, to); err != nil {
		return fmt.Errorf("connection to %s: %w", remote, os.NewSyscallError("sendto", err))
	}
	waiting := []unix.PollFd{{Fd: int32(fd)}} // POLLHUP is always reported
	for deadline := time.Now().Add(resetPatience); ; {
		n, err := unix.Poll(waiting, int(time.Until(deadline).Milliseconds()))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return os.NewSyscallError("poll", err)
		case n == 0:
			return fmt.Errorf("connection to %s: the kernel did not accept the reset", remote)
		case waiting[0].Revents&unix.POLLHUP != 0:
			return nil
		default:
			return fmt.Errorf("connection to %s: poll: %#x", remote, waiting[0].Revents)
		}
	}
}

// readSocketAddresses returns the addresses of a connection.
func readSocketAddresses(fd int) (local, remote netip.AddrPort, err error) {
	l, err := unix.Getsockname(fd)
	if err != nil {
		return local, remote, err
	}
	r, err := unix.Getpeername(fd)
	if err != nil {
		return local, remote, err
	}
	if local, err = addrPortOf(l); err == nil {
		remote, err = addrPortOf(r)
	}
	return local, remote, err
}

// addrPortOf returns the IPv4 address of a socket; capsules have only IPv4 to the outside.
func addrPortOf(sa unix.Sockaddr) (netip.AddrPort, error) {
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)), nil
	case *unix.SockaddrInet6:
		if ip := netip.AddrFrom16(a.Addr); ip.Is4In6() {
			return netip.AddrPortFrom(ip.Unmap(), uint16(a.Port)), nil
		}
	}
	return netip.AddrPort{}, errors.New("the connection has no IPv4 address")
}

// nextSequence returns the sequence number of the next byte that a connection would receive. The
// kernel accepts a reset with this number only (RFC 5961).
func nextSequence(fd int) (uint32, error) {
	if err := unix.SetsockoptInt(fd, unix.SOL_TCP, unix.TCP_REPAIR, tcpRepairOn); err != nil {
		return 0, os.NewSyscallError("setsockopt TCP_REPAIR", err)
	}
	var sequence int
	err := unix.SetsockoptInt(fd, unix.SOL_TCP, unix.TCP_REPAIR_QUEUE, tcpRecvQueue)
	if err == nil {
		sequence, err = unix.GetsockoptInt(fd, unix.SOL_TCP, unix.TCP_QUEUE_SEQ)
	}
	return uint32(sequence), errors.Join(
		os.NewSyscallError("TCP_QUEUE_SEQ", err),
		os.NewSyscallError("setsockopt TCP_REPAIR_QUEUE", unix.SetsockoptInt(fd, unix.SOL_TCP, unix.TCP_REPAIR_QUEUE, tcpNoQueue)),
		os.NewSyscallError("setsockopt TCP_REPAIR", unix.SetsockoptInt(fd, unix.SOL_TCP, unix.TCP_REPAIR, tcpRepairOffSilent)))
}

// Sizes of headers without options.
const ipHeader, tcpHeader = 20, 20

// resetPacket returns an IPv4 packet with a TCP segment that resets a connection.
func resetPacket(from, to netip.AddrPort, sequence uint32) []byte {
	return tcpPacket(from, to, flagRST, sequence, 0)
}

// tcpPacket returns an IPv4 packet with a TCP segment without data.
func tcpPacket(from, to netip.AddrPort, flags byte, sequence, acknowledged uint32) []byte {
	p := make([]byte, ipHeader+tcpHeader)
	fillAddresses(p, unix.IPPROTO_TCP, from.Addr(), to.Addr())
	t := p[ipHeader:]
	binary.BigEndian.PutUint16(t[0:], from.Port())
	binary.BigEndian.PutUint16(t[2:], to.Port())
	binary.BigEndian.PutUint32(t[4:], sequence)
	binary.BigEndian.PutUint32(t[8:], acknowledged)
	t[12], t[flagsOffset] = tcpHeader/4<<4, flags
	setChecksum(p, ipHeader, ipHeader+16, unix.IPPROTO_TCP)
	return p
}

// fillAddresses fills the header of IPv4. The kernel sets its length and its checksum.
func fillAddresses(p []byte, protocol byte, from, to netip.Addr) {
	const ttl = 64
	source, target := from.As4(), to.As4()
	p[0], p[8], p[9] = 4<<4|ipHeader/4, ttl, protocol
	copy(p[12:], source[:])
	copy(p[16:], target[:])
}

// setChecksum sets the checksum, at offset at, of the packet p of TCP or ICMP. The header of IPv4
// ends at start.
func setChecksum(p []byte, start, at int, protocol byte) {
	p[at], p[at+1] = 0, 0
	sum := uint32(protocol) + uint32(len(p)-start) + sumWords(p[12:20]) + sumWords(p[start:])
	binary.BigEndian.PutUint16(p[at:], ^foldSum(sum))
}

func sumWords(b []byte) (sum uint32) {
	for ; len(b) > 1; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	return sum
}

func foldSum(sum uint32) uint16 {
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return uint16(sum)
}
