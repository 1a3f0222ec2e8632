// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/localsock"
	"github.com/singularity-slurm/singularity-slurm/proxyd/relay/stream"
)

// Ports are the ports of the capsule that clients outside can reach.
type Ports struct {
	Address netip.Addr   `json:"address"` // of the capsule: where programs listen
	Ports   []uint16     `json:"ports"`
	Range   netip.Prefix `json:"range"` // addresses of capsules, which a program never sees as a client's
}

// clients has the forwarder's state for connections that clients make.
type clients struct {
	once sync.Once    // starts serveOffers
	gate sync.RWMutex // held shared while a connection to a program begins. Taken before Forwarder.rest

	mu      sync.Mutex
	sockets []int         // not connected, in the capsule's network; each may be bound to any address
	more    chan struct{} // closed when sockets come, or the pause ends. Nil while no client waits
	paused  bool
	taking  map[string]bool // offers that are being taken
}

// MaxSockets bounds the sockets for clients that a forwarder has in store.
const MaxSockets = 32

// maxTaking bounds the clients that are being connected at a time.
const maxTaking = 1024

// countLackingSockets returns the number of sockets that are missing from the store.
func (c *clients) countLackingSockets() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return MaxSockets - len(c.sockets)
}

// addSockets keeps duplicates of sockets.
func (c *clients) addSockets(files []*os.File) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, file := range files {
		if len(c.sockets) >= MaxSockets {
			break
		}
		own, bad := -1, error(nil)
		err := localsock.WithDescriptor(file, func(fd int) { own, bad = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) })
		if err = errors.Join(err, bad); err != nil {
			return err
		}
		c.sockets = append(c.sockets, own)
	}
	c.wakeWaiting()
	return nil
}

// pauseConnecting prevents that connections to programs begin, until resumeConnecting.
func (c *clients) pauseConnecting() {
	c.gate.Lock() // no connection is just beginning
	defer c.gate.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = true
}

func (c *clients) resumeConnecting() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = false
	c.wakeWaiting()
}

// wakeWaiting wakes the callers of nextSocket. The caller holds mu.
func (c *clients) wakeWaiting() {
	if c.more != nil {
		close(c.more)
		c.more = nil
	}
}

// nextSocket waits for a socket, and for the end of a pause. With a socket, the caller holds gate shared.
func (c *clients) nextSocket(ctx context.Context) (*os.File, error) {
	for {
		c.gate.RLock()
		c.mu.Lock()
		if n := len(c.sockets); n > 0 && !c.paused {
			fd := c.sockets[n-1]
			c.sockets = c.sockets[:n-1]
			c.mu.Unlock()
			return os.NewFile(uintptr(fd), "connection of a client"), nil
		}
		if c.more == nil {
			c.more = make(chan struct{})
		}
		more := c.more
		c.mu.Unlock()
		c.gate.RUnlock()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-more:
		}
	}
}

// beginTaking notes an offer. The result is false if the offer was noted before, or too many offers are being taken.
func (c *clients) beginTaking(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taking[id] || len(c.taking) >= maxTaking {
		return false
	}
	if c.taking == nil {
		c.taking = map[string]bool{}
	}
	c.taking[id] = true
	return true
}

func (c *clients) endTaking(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.taking, id)
}

// serveOffers keeps a link for offers, until the forwarder ends.
func (f *Forwarder) serveOffers() {
	retry := firstRetry
	for {
		relay, changed := f.currentRelay()
		linked, err := f.acceptOffers(relay, changed)
		if linked {
			retry = firstRetry
		}
		f.log.Debug("the link for offers has ended", "error", err)
		select {
		case <-f.ctx.Done():
			return
		case <-changed:
		case <-time.After(retry):
		}
		retry = min(2*retry, longestRetry)
	}
}

// acceptOffers takes offers by a link, until the link ends or changed is closed. linked tells whether the relay has
// admitted the link.
func (f *Forwarder) acceptOffers(to Relay, changed <-chan struct{}) (linked bool, err error) {
	if to.Address == "" {
		return false, errors.New("the relay has not admitted the job yet")
	}
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel() // ends the link
	link, answer, err := sayHello(ctx, to.Address, func() stream.Hello { return stream.Hello{Ticket: to.Ticket, Offers: true} })
	if err != nil {
		return false, err
	}
	if answer.Kind != stream.KindWelcome {
		var over stream.ConnectionEnd
		if answer.Kind != stream.KindOver || answer.Parse(&over) != nil {
			return false, fmt.Errorf("%w: kind %d instead of an answer", stream.ErrProtocol, answer.Kind)
		}
		f.setRefused(over.Retry)
		return false, fmt.Errorf("the relay offers no clients: %s", over.Reason)
	}
	f.setRefused(false)
	go func() {
		select {
		case <-ctx.Done():
		case <-changed:
			cancel()
		}
	}()
	for {
		frame, err := stream.ReadFrame(link)
		if err != nil {
			return true, err
		}
		var o stream.Offer
		if frame.Kind != stream.KindOffer {
			return true, fmt.Errorf("%w: kind %d instead of an offer", stream.ErrProtocol, frame.Kind)
		}
		if err := frame.Parse(&o); err != nil {
			return true, err
		}
		if f.clients.beginTaking(o.ID) {
			go func() {
				defer f.clients.endTaking(o.ID)
				f.acceptOffer(to, o)
			}()
		}
	}
}

// acceptOffer connects a client to its program, or tells the relay why that has failed.
func (f *Forwarder) acceptOffer(to Relay, o stream.Offer) {
	err := f.connectClient(to.Clients, o)
	if err == nil || f.ctx.Err() != nil {
		return
	}
	f.log.Info("client refused", "port", o.Port, "from", o.From, "reason", err)
	ctx, cancel := context.WithTimeout(f.ctx, lastPatience)
	defer cancel()
	if _, err := f.requestOverLink(ctx, to, stream.Hello{ID: o.ID, To: o.From, Opened: true, Over: err.Error()}); err != nil {
		f.log.Warn("the relay keeps a client that no program has", "port", o.Port, "error", err)
	}
}

// connectPatience is how long a program may take to accept a client.
const connectPatience = time.Minute

// connectClient connects to the program that listens at a port, and begins to carry the connection. Before that a
// checkpoint has only the program's end of a connection: a restore resets it, and the relay, which has not sent any of
// the client's bytes yet, offers the client again.
func (f *Forwarder) connectClient(ports Ports, o stream.Offer) error {
	from, err := netip.ParseAddrPort(o.From)
	if err != nil {
		return err
	}
	if !slices.Contains(ports.Ports, o.Port) {
		return fmt.Errorf("the job has not asked for port %d", o.Port)
	}
	file, err := f.clients.nextSocket(f.ctx) // waits as long as a checkpoint takes: the relay bounds the client's wait
	if err != nil {
		return err
	}
	defer file.Close()
	program := netip.AddrPortFrom(ports.Address, o.Port)
	f.rest.RLock() // not between hold and go
	err = beginConnect(file, ports.clientAddress(from), program)
	f.rest.RUnlock()
	f.clients.gate.RUnlock()
	if err != nil {
		return err
	}
	socket, err := tcpSocket(file)
	if err != nil {
		return err
	}
	if err := awaitConnected(socket); err != nil {
		socket.Close()
		return fmt.Errorf("port %d of the job: %w", o.Port, err)
	}
	f.rest.RLock()
	defer f.rest.RUnlock()
	c, err := f.newConnection(SavedConnection{ID: o.ID, From: program.String(), To: socket.LocalAddr().String(), Opened: true}, socket)
	if err == nil && !f.addConnection(c, maxWithClients) {
		err = errors.New("the capsule has too many connections")
	}
	if err != nil {
		_ = socket.SetLinger(0)
		socket.Close()
	}
	return err
}

// strangeClient (RFC 5737) is the address that a program sees of a client if it could not answer the client's own
// address: for clients with IPv6 addresses, on the relay's host itself, and in other capsules.
var strangeClient = netip.AddrFrom4([4]byte{192, 0, 2, 1})

// clientAddress returns the address that a program sees of a client; port 0 stands for any port.
func (p Ports) clientAddress(from netip.AddrPort) netip.AddrPort {
	a := from.Addr().Unmap()
	if !a.Is4() || a.IsLoopback() || a.IsUnspecified() || a.IsMulticast() || a.IsLinkLocalUnicast() || p.Range.Contains(a) {
		return netip.AddrPortFrom(strangeClient, 0)
	}
	return netip.AddrPortFrom(a, from.Port())
}

// beginConnect begins to connect a socket, which gets a client's address and, if that is free, its port.
func beginConnect(file *os.File, client, program netip.AddrPort) error {
	return localsock.TryWithDescriptor(file, func(fd int) error {
		var failed error
		for _, port := range []uint16{client.Port(), 0} {
			failed = unix.Bind(fd, &unix.SockaddrInet4{Addr: client.Addr().As4(), Port: int(port)})
			if !errors.Is(failed, unix.EADDRINUSE) {
				break
			}
		}
		if failed != nil {
			return os.NewSyscallError("bind", failed)
		}
		err := unix.Connect(fd, &unix.SockaddrInet4{Addr: program.Addr().As4(), Port: int(program.Port())})
		if errors.Is(err, unix.EINPROGRESS) {
			return nil
		}
		return os.NewSyscallError("connect", err)
	})
}

// awaitConnected waits until a socket is connected, or connecting has failed.
func awaitConnected(socket *net.TCPConn) error {
	raw, err := socket.SyscallConn()
	if err == nil {
		err = socket.SetWriteDeadline(time.Now().Add(connectPatience))
	}
	if err != nil {
		return err
	}
	var failed error
	err = raw.Write(func(fd uintptr) (done bool) {
		code, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		if err == nil && code != 0 {
			err = unix.Errno(code)
		}
		if err == nil {
			if _, err = unix.Getpeername(int(fd)); errors.Is(err, unix.ENOTCONN) {
				return false
			}
		}
		failed = err
		return true
	})
	return errors.Join(err, failed, socket.SetWriteDeadline(time.Time{}))
}
