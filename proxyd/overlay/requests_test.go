// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// connectWithin begins connect() in a capsule, and returns the socket, and a channel with the result
// of the call.
func connectWithin(t *testing.T, a *box, to string, flags int) (int, <-chan error) {
	t.Helper()
	var fd int
	failOn(t, withinNamespace(a.ns, func() (err error) {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|flags, 0)
		return err
	}))
	t.Cleanup(func() { unix.Close(fd) })
	result := make(chan error, 1)
	go func() { result <- unix.Connect(fd, sockaddrOf(netip.MustParseAddrPort(to))) }()
	return fd, result
}

func awaitError(t *testing.T, result <-chan error) error {
	t.Helper()
	select {
	case err := <-result:
		return err
	case <-time.After(patience):
		t.Fatal("connect() does not end")
		return nil
	}
}

// nextRequest returns the next request of an address: the kernel may repeat other requests.
func nextRequest(t *testing.T, r *Requests, to string) Request {
	t.Helper()
	for {
		q, err := r.Next()
		failOn(t, err)
		if q.To.String() == to {
			return q
		}
	}
}

// TestRequests: connect() waits for the answer, and returns the error that a refusal stands for, in both forms.
func TestRequests(t *testing.T) {
	_, a0, l, r := divertedAsking(t)
	for name, c := range map[string]struct {
		why  Refusal
		want unix.Errno
	}{
		"refused":    {RefuseConnection, unix.ECONNREFUSED},
		"no host":    {RefuseHost, unix.EHOSTUNREACH},
		"no network": {RefuseNetwork, unix.ENETUNREACH},
		"prohibited": {RefuseProhibited, unix.EHOSTUNREACH},
	} {
		t.Run(name, func(t *testing.T) {
			_, result := connectWithin(t, a0, "192.0.2.7:443", 0)
			q := nextRequest(t, r, "192.0.2.7:443")
			if q.From.Addr() != a0.addr {
				t.Errorf("the request is from %s, want %s", q.From, a0.addr)
			}
			failOn(t, r.Refuse(q, c.why))
			if err := awaitError(t, result); !errors.Is(err, c.want) {
				t.Errorf("connect(): %v, want %v", err, c.want)
			}
			fd, result := connectWithin(t, a0, "192.0.2.7:444", unix.SOCK_NONBLOCK)
			if err := awaitError(t, result); !errors.Is(err, unix.EINPROGRESS) {
				t.Errorf("connect() without waiting: %v", err)
			}
			q = nextRequest(t, r, "192.0.2.7:444")
			waiting := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
			if n, err := unix.Poll(waiting, 50); n != 0 {
				t.Errorf("the socket is %#x before there is an answer, %v", waiting[0].Revents, err)
			}
			failOn(t, r.Refuse(q, c.why))
			if n, err := unix.Poll(waiting, int(patience.Milliseconds())); n != 1 || err != nil {
				t.Fatalf("poll: %d, %v", n, err)
			}
			if got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR); err != nil || unix.Errno(got) != c.want {
				t.Errorf("SO_ERROR: %v, %v, want %v", unix.Errno(got), err, c.want)
			}
		})
	}
	t.Run("repeated", func(t *testing.T) {
		_, result := connectWithin(t, a0, "192.0.2.8:443", 0)
		first := nextRequest(t, r, "192.0.2.8:443")
		q := nextRequest(t, r, "192.0.2.8:443")
		if q.From != first.From {
			t.Errorf("%s asks again for %s", q.From, first.From)
		}
		failOn(t, r.Grant(q))
		if err := awaitError(t, result); err != nil {
			t.Error(err)
		}
		failOn(t, l.(*net.TCPListener).SetDeadline(time.Now().Add(patience)))
		c, err := l.Accept()
		failOn(t, err)
		defer c.Close()
		if c.LocalAddr().String() != "192.0.2.8:443" || c.RemoteAddr().String() != q.From.String() {
			t.Errorf("the listener got a connection from %s to %s", c.RemoteAddr(), c.LocalAddr())
		}
	})
	t.Run("closed", func(t *testing.T) {
		failOn(t, r.Close())
		if _, err := r.Next(); !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	})
}

// TestCheckDivert: the kernel on which the other tests pass passes the check.
func TestCheckDivert(t *testing.T) {
	needRoot(t)
	failOn(t, CheckDivert())
}

// FuzzParseRequest: every request that is parsed can be answered.
func FuzzParseRequest(f *testing.F) {
	a, b := netip.MustParseAddrPort("100.64.0.8:40000"), netip.MustParseAddrPort("192.0.2.7:443")
	syn := tcpPacket(a, b, flagSYN, 7, 0)
	f.Add(syn)
	f.Add(syn[:39])
	f.Add(tcpPacket(a, b, flagSYN|flagACK, 7, 8))
	f.Fuzz(func(t *testing.T, p []byte) {
		q, ok := parseRequest(p)
		if !ok {
			return
		}
		if len(q.packet) > longestRequest || !q.From.IsValid() || !q.To.IsValid() {
			t.Errorf("parsed request %+v; want both addresses and at most longestRequest bytes", q)
		}
		if m := unreachablePacket(q, 1); foldSum(sumWords(m[ipHeader:])) != 0xffff && len(q.packet)%2 == 0 {
			t.Errorf("wrong checksum in the packet %x", m)
		}
	})
}
