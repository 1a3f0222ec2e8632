// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package collective

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/strangers"
)

// ErrClosed is returned by a Node and its communicators after Close.
var ErrClosed = errors.New("closed")

// Config configures a Node. Zero durations mean the defaults.
type Config struct {
	// Listen is host:port for connections of other processes; port 0 takes any port. If empty,
	// the Node does not listen, and communicators of which other processes hold ranks cannot be
	// made.
	Listen string
	// Address is the address that other processes dial, if it differs from the listener's
	// address.
	Address string
	// Connect bounds the time from the rendezvous until all connections are there; 30 s.
	Connect time.Duration
	// Handshake bounds the time that a connecting process has to prove that it knows a key, which
	// includes the time until our own side comes to that communicator; 10 s.
	Handshake time.Duration
	// Dead is for how long a peer's machine may be silent, or a peer not take the bytes sent to
	// it, before the peer counts as dead; 60 s. A process that ends is noticed at once.
	Dead time.Duration
	// Linger bounds the time for which a destroyed communicator waits for its peers; 10 s.
	Linger time.Duration
}

// maxHandshakes is how many connections may be in their handshake.
const maxHandshakes = 256

// Node is a process's end of all its communicators. A Node is safe for concurrent use.
type Node struct {
	cfg      Config
	tuning   tuning
	wrap     func(net.Conn) net.Conn // for tests that break connections; else nil
	listener net.Listener
	ctx      context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup
	callers  *strangers.List // in their handshake
	memory   Memory          // nil: buffers of ranks share no memory

	mu       sync.Mutex
	comms    map[*Comm]struct{}
	expected map[tag]*Comm
	changed  chan struct{} // closed, and replaced, when expected grows
}

// Listen makes a Node. The Node works until ctx is done or Close is called.
func Listen(ctx context.Context, cfg Config) (*Node, error) {
	for _, d := range []struct {
		value    *time.Duration
		standard time.Duration
	}{
		{&cfg.Connect, 30 * time.Second},
		{&cfg.Handshake, 10 * time.Second},
		{&cfg.Dead, 60 * time.Second},
		{&cfg.Linger, 10 * time.Second},
	} {
		if *d.value == 0 {
			*d.value = d.standard
		}
	}
	n := &Node{
		cfg: cfg, tuning: standard, callers: strangers.New(maxHandshakes),
		comms: make(map[*Comm]struct{}), expected: make(map[tag]*Comm), changed: make(chan struct{}),
	}
	if cfg.Listen != "" {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Listen)
		if err != nil {
			return nil, fmt.Errorf("collectives: %w", err)
		}
		n.listener = l
		if cfg.Address == "" {
			n.cfg.Address = l.Addr().String()
		}
	}
	n.ctx, n.cancel = context.WithCancel(ctx)
	if n.listener != nil {
		context.AfterFunc(n.ctx, func() { n.listener.Close() })
		n.wg.Go(n.acceptConns)
	}
	return n, nil
}

// Address returns the address at which other processes connect.
func (n *Node) Address() string { return n.cfg.Address }

// Close aborts all communicators and returns when they have ended completely: their operations
// have returned, and memory given to them is not used any more. Close may be called twice, but
// not by the done function of an operation.
func (n *Node) Close() {
	n.cancel()
	n.mu.Lock()
	var all []*Comm
	for c := range n.comms {
		all = append(all, c)
	}
	n.mu.Unlock()
	for _, c := range all {
		c.failComm(ErrClosed)
		<-c.over
	}
	n.wg.Wait()
}

func (n *Node) acceptConns() {
	for {
		conn, err := n.listener.Accept()
		if err != nil {
			if n.ctx.Err() != nil {
				return
			}
			// Out of descriptors, most likely: wait for a free descriptor.
			select {
			case <-n.ctx.Done():
				return
			case <-time.After(10 * time.Millisecond):
			}
			continue
		}
		n.callers.Add(conn)
		n.wg.Go(func() { n.greetConn(conn) })
	}
}

// greetConn finds out which process connected, and closes connections without a communicator's
// key. The reason is not sent.
func (n *Node) greetConn(conn net.Conn) {
	stop := context.AfterFunc(n.ctx, func() { conn.Close() })
	defer stop()
	ctx, cancel := context.WithTimeout(n.ctx, n.cfg.Handshake)
	defer cancel()
	deadline, _ := ctx.Deadline()
	conn.SetDeadline(deadline) //nolint:errcheck // a deadline fails only on a closed connection
	h, err := readHello(conn)
	var c *Comm
	if err == nil {
		c, err = n.findComm(ctx, h.tag)
	}
	if err == nil {
		err = examineHello(conn, c.key, h)
	}
	n.callers.Remove(conn)
	if err != nil || h.to != c.me || h.from <= c.me || c.attachConn(h.from, conn) != nil {
		conn.Close()
	}
}

// findComm waits until the communicator is made here: another process may have learned of it
// before us.
func (n *Node) findComm(ctx context.Context, t tag) (*Comm, error) {
	for {
		n.mu.Lock()
		c, changed := n.expected[t], n.changed
		n.mu.Unlock()
		if c != nil {
			return c, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// expectComm admits connections of other processes for c.
func (n *Node) expectComm(t tag, c *Comm) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.expected[t] != nil {
		return fmt.Errorf("%w: this node holds another part of it", ErrArgument)
	}
	n.expected[t] = c
	close(n.changed)
	n.changed = make(chan struct{})
	return nil
}

func (n *Node) forgetComm(c *Comm) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.comms, c)
	if n.expected[c.tag] == c {
		delete(n.expected, c.tag)
	}
}

// dialProcess connects process from to process to. dialProcess tries again until ctx is done,
// because the other side may be slower than this side.
func (n *Node) dialProcess(ctx context.Context, address string, key []byte, t tag, from, to int) (net.Conn, error) {
	pause := 10 * time.Millisecond
	for {
		conn, err := n.dialOnce(ctx, address, key, t, from, to)
		if err == nil {
			return conn, nil
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), err)
		case <-time.After(pause):
		}
		pause = min(2*pause, time.Second)
	}
}

func (n *Node) dialOnce(ctx context.Context, address string, key []byte, t tag, from, to int) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	conn.SetDeadline(time.Now().Add(n.cfg.Handshake)) //nolint:errcheck // a deadline fails only on a closed connection
	if err := introduceSelf(conn, key, newHello(t, from, to)); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// watchConn lets the kernel notice that a peer's machine is gone. Its keep-alive is answered by a
// stopped process's kernel too, so a suspended job is not taken for dead while idle.
func (n *Node) watchConn(conn net.Conn) error {
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	tcp, is := conn.(*net.TCPConn)
	if !is {
		return nil
	}
	err := tcp.SetKeepAliveConfig(net.KeepAliveConfig{
		Enable: true, Idle: n.cfg.Dead / 2, Interval: max(n.cfg.Dead/8, time.Second), Count: 4,
	})
	if err != nil {
		return err
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = raw.Control(func(fd uintptr) {
		set = syscall.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(n.cfg.Dead/time.Millisecond))
	})
	return errors.Join(err, set)
}
