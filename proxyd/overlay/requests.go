// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Request is a connection that a program of a diverted capsule asks for: the packet by which TCP begins (SYN). The
// program's connect() waits for the answer, and the kernel repeats the packet until there is one.
type Request struct {
	From netip.AddrPort // the program's end
	To   netip.AddrPort

	packet []byte // IPv4 and TCP headers
}

// Refusal is a reason with which connect() fails.
type Refusal int

// The refusals, with the error that connect() returns for each.
const (
	RefuseConnection Refusal = iota // ECONNREFUSED
	RefuseHost                      // EHOSTUNREACH
	RefuseNetwork                   // ENETUNREACH
	RefuseProhibited                // EHOSTUNREACH
)

// icmpCodes are the codes of "destination unreachable". A refused connection is answered by TCP itself.
var icmpCodes = map[Refusal]byte{RefuseNetwork: 0, RefuseHost: 1, RefuseProhibited: 13}

// Requests receives the requests of a diverted capsule, and answers them. Without a call of Next no request is
// answered, and connect() waits. Next is for a single goroutine; the other methods are safe for concurrent use.
type Requests struct {
	packets *os.File // receives
	source  syscall.RawConn
	granted *os.File // sends requests on to the listener
	refused *os.File // sends refusals
}

// DivertRequests returns the requests of a capsule after Divert. pid is a process of the capsule. The network
// namespace of the capsule stays until Close.
func DivertRequests(pid int) (*Requests, error) {
	r := &Requests{}
	err := withinNetworkNamespace(pid, func() (err error) {
		if r.packets, err = openPackets(); err != nil {
			return err
		}
		if r.granted, err = openRaw(grantedMark); err != nil {
			return err
		}
		r.refused, err = openRaw(0)
		return err
	})
	if err == nil {
		r.source, err = r.packets.SyscallConn()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("requests of process %d for connections to outside: %w", pid, err), r.Close())
	}
	return r, nil
}

// Close ends Next. A second call has no effect.
func (r *Requests) Close() error {
	var errs []error
	for _, f := range []**os.File{&r.packets, &r.granted, &r.refused} {
		if *f == nil {
			continue
		}
		if err := (*f).Close(); !errors.Is(err, os.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// longestRequest is the size of the longest headers of IPv4 and TCP.
const longestRequest = 60 + 60

// openPackets returns a socket that receives a copy of each request. The rules of Divert drop the request itself.
func openPackets() (*os.File, error) {
	lo, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0) // no packet until Bind
	if err != nil {
		return nil, os.NewSyscallError("socket AF_PACKET", err)
	}
	f := os.NewFile(uintptr(lo), "requests for connections to outside")
	const onlyReceived = unix.ETH_P_IP>>8 | unix.ETH_P_IP&0xff<<8 // in network order
	err = unix.SetsockoptSockFprog(lo, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, requestFilter())
	if err == nil {
		err = unix.Bind(lo, &unix.SockaddrLinklayer{Protocol: onlyReceived, Ifindex: loopbackIndex})
	}
	if err != nil {
		f.Close()
		return nil, os.NewSyscallError("socket AF_PACKET", err)
	}
	return f, nil
}

// loopbackIndex is the index of lo in each network namespace.
const loopbackIndex = 1

// Parts of TCP's header.
const (
	flagsOffset = 13
	flagRST     = 0x04
	flagACK     = 0x10
	flagSYN     = 0x02
)

// requestFilter is the kernel's program that lets through packets with divertedMark that begin a connection of TCP.
func requestFilter() *unix.SockFprog {
	const (
		load       = unix.BPF_LD | unix.BPF_ABS
		equal      = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		skbMark    = 0xfffff000 + 20 // SKF_AD_OFF + SKF_AD_MARK
		protocolAt = 9
	)
	program := []unix.SockFilter{
		{Code: load | unix.BPF_W, K: skbMark},
		{Code: equal, K: divertedMark, Jf: 7},
		{Code: load | unix.BPF_B, K: protocolAt},
		{Code: equal, K: unix.IPPROTO_TCP, Jf: 5},
		{Code: unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH, K: 0}, // the length of the header of IPv4
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_IND, K: flagsOffset},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: flagSYN | flagACK},
		{Code: equal, K: flagSYN, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: longestRequest},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	}
	return &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
}

// openRaw returns a socket that sends packets with a mark. The kernel completes the header of IPv4.
func openRaw(mark int) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_RAW)
	if err != nil {
		return nil, os.NewSyscallError("socket SOCK_RAW", err)
	}
	f := os.NewFile(uintptr(fd), "answers to requests for connections to outside")
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, mark); err != nil {
		f.Close()
		return nil, os.NewSyscallError("setsockopt SO_MARK", err)
	}
	return f, nil
}

// Next returns the next request, also one that is repeated. The error wraps os.ErrClosed after Close.
func (r *Requests) Next() (Request, error) {
	b := make([]byte, longestRequest)
	for {
		var n int
		var failed error
		err := r.source.Read(func(fd uintptr) bool {
			n, _, failed = unix.Recvfrom(int(fd), b, 0)
			return !errors.Is(failed, unix.EAGAIN)
		})
		if err != nil { // internal/poll's error for a closed file
			return Request{}, fmt.Errorf("requests for connections to outside: %w", os.ErrClosed)
		}
		if failed != nil && !errors.Is(failed, unix.EINTR) {
			return Request{}, fmt.Errorf("requests for connections to outside: %w", failed)
		}
		if q, ok := parseRequest(b[:max(n, 0)]); ok {
			return q, nil
		}
	}
}

// parseRequest takes the headers of a packet, without data that a request may have: TCP sends these again.
func parseRequest(b []byte) (q Request, ok bool) {
	if len(b) < ipHeader+tcpHeader || b[0]>>4 != 4 || b[9] != unix.IPPROTO_TCP {
		return q, false
	}
	start := int(b[0]&0xf) * 4
	if start < ipHeader || len(b) < start+tcpHeader {
		return q, false
	}
	t := b[start:]
	end := start + int(t[12]>>4)*4
	if end < start+tcpHeader || len(b) < end || t[flagsOffset]&(flagSYN|flagACK) != flagSYN {
		return q, false
	}
	return Request{
		From:   netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[12:])), binary.BigEndian.Uint16(t)),
		To:     netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[16:])), binary.BigEndian.Uint16(t[2:])),
		packet: append([]byte(nil), b[:end]...),
	}, true
}

// Grant has the request reach the listener that Divert has returned: connect() succeeds.
func (r *Requests) Grant(q Request) error {
	p := append([]byte(nil), q.packet...)
	start := int(p[0]&0xf) * 4
	binary.BigEndian.PutUint16(p[2:], uint16(len(p)))
	setChecksum(p, start, start+16, unix.IPPROTO_TCP)
	return sendRaw(r.granted, p, q.To.Addr())
}

// Refuse has connect() fail.
func (r *Requests) Refuse(q Request, why Refusal) error {
	if code, ok := icmpCodes[why]; ok {
		return sendRaw(r.refused, unreachablePacket(q, code), q.From.Addr())
	}
	sequence := binary.BigEndian.Uint32(q.packet[int(q.packet[0]&0xf)*4+4:])
	return sendRaw(r.refused, tcpPacket(q.To, q.From, flagRST|flagACK, 0, sequence+1), q.From.Addr())
}

func sendRaw(f *os.File, packet []byte, to netip.Addr) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		failed = unix.Sendto(int(fd), packet, 0, &unix.SockaddrInet4{Addr: to.As4()})
		return !errors.Is(failed, unix.EAGAIN)
	})
	return errors.Join(err, os.NewSyscallError("sendto", failed))
}

// unreachablePacket returns an IPv4 packet with the message of ICMP that a host cannot be reached.
func unreachablePacket(q Request, code byte) []byte {
	const icmpHeader, unreachable = 8, 3
	p := make([]byte, ipHeader+icmpHeader, ipHeader+icmpHeader+len(q.packet))
	fillAddresses(p, unix.IPPROTO_ICMP, q.To.Addr(), q.From.Addr())
	p[ipHeader], p[ipHeader+1] = unreachable, code
	p = append(p, q.packet...)
	binary.BigEndian.PutUint16(p[ipHeader+2:], ^foldSum(sumWords(p[ipHeader:])))
	return p
}
