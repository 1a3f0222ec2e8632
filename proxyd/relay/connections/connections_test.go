// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/singularity-slurm/singularity-slurm/proxyd/relay/stream"
	"github.com/singularity-slurm/singularity-slurm/proxyd/strangers"
)

const patience = 20 * time.Second

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// relay is a Holder that serves links, and the other side to which it may connect.
type relay struct {
	*Holder
	t     *testing.T
	links string
	other net.Listener
}

// fewCallers bounds the silent links of a test's relay.
const fewCallers = 64

const ticketText = "the ticket of a test"

// newRelay has a job's ticket admitted. per is per_user.
func newRelay(t *testing.T, per int) *relay {
	t.Helper()
	at := ownAddress(t)
	r := &relay{t: t, Holder: New(t.Context(), Config{
		Policy: Policy{Allow: []netip.Prefix{netip.PrefixFrom(at, 32)}}, PerUser: per, Keep: time.Hour, Log: slog.New(slog.DiscardHandler),
	})}
	listen := func(at string) net.Listener {
		l, err := net.Listen("tcp", at)
		must(t, err)
		t.Cleanup(func() { l.Close() })
		return l
	}
	r.callers = strangers.New(fewCallers)
	l := listen("127.0.0.1:0")
	r.links, r.other = l.Addr().String(), listen(net.JoinHostPort(at.String(), "0"))
	go func() { _ = r.Serve(l) }()
	must(t, r.Admit(Admission{Job: "c/1/then", UID: 1001, Ticket: HashTicket(ticketText)}))
	return r
}

// ownAddress returns an address of this host that a relay may connect to if it is named.
func ownAddress(t *testing.T) netip.Addr {
	t.Helper()
	all, err := net.InterfaceAddrs()
	must(t, err)
	for _, a := range all {
		if x, ok := a.(*net.IPNet); ok && x.IP.To4() != nil && !x.IP.IsLoopback() && !x.IP.IsLinkLocalUnicast() {
			return netip.AddrFrom4([4]byte(x.IP.To4()))
		}
	}
	t.Skip("SKIP: this host has no address but that of lo")
	return netip.Addr{}
}

// connectSilent connects to the relay, and sends no frame.
func (r *relay) connectSilent() net.Conn { return r.connectSilentFrom("127.0.0.1") }

// connectSilentFrom connects to the relay as a host, and sends no frame.
func (r *relay) connectSilentFrom(host string) net.Conn {
	r.t.Helper()
	link, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(host)}}).Dial("tcp", r.links)
	must(r.t, err)
	r.t.Cleanup(func() { link.Close() })
	must(r.t, link.SetDeadline(time.Now().Add(patience)))
	return link
}

// open makes a connection of the job. It returns the link and the connection's other side.
func (r *relay) open(id string) (link net.Conn, outer *net.TCPConn) {
	r.t.Helper()
	return r.openFor(ticketText, id)
}

// openFor makes a connection of the job with a ticket.
func (r *relay) openFor(ticket, id string) (link net.Conn, outer *net.TCPConn) {
	r.t.Helper()
	link = r.connectSilent()
	must(r.t, stream.WriteJSON(link, stream.KindHello, stream.Hello{Ticket: ticket, ID: id, To: r.other.Addr().String()}))
	must(r.t, r.other.(*net.TCPListener).SetDeadline(time.Now().Add(patience)))
	c, err := r.other.Accept()
	must(r.t, err)
	r.t.Cleanup(func() { c.Close() })
	r.expect(link, stream.KindWelcome)
	return link, c.(*net.TCPConn)
}

// expect reads a frame of a kind.
func (r *relay) expect(link net.Conn, kind stream.Kind) *stream.Frame {
	r.t.Helper()
	f, err := stream.ReadFrame(link)
	must(r.t, err)
	if f.Kind != kind {
		r.t.Fatalf("a frame of kind %d, not %d: %s", f.Kind, kind, f.Data)
	}
	return f
}

// await waits until f is true under the lock.
func (r *relay) await(what string, f func() bool) {
	r.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		r.mu.Lock()
		is := f()
		r.mu.Unlock()
		if is {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("after %v, not yet: %s", patience, what)
		}
	}
}

func reset(t *testing.T, c *net.TCPConn) {
	t.Helper()
	must(t, c.SetLinger(0))
	must(t, c.Close())
}

// TestSilentLinks: links on which programs of a node, or of many nodes, send nothing do not keep the node's forwarders
// out, and all of them together are bounded.
func TestSilentLinks(t *testing.T) {
	for name, hosts := range map[string]int{"of a node": 1, "of many nodes": 100} {
		t.Run(name, func(t *testing.T) {
			r := newRelay(t, 4)
			var all []net.Conn
			for n := range 2 * fewCallers {
				all = append(all, r.connectSilentFrom(fmt.Sprintf("127.0.1.%d", 1+n%hosts)))
			}
			r.open(rand.Text())
			for n, link := range all[:fewCallers] {
				if hosts > 1 && n >= 2*fewCallers-hosts { // of a host that has more than others
					break
				}
				if _, err := link.Read(make([]byte, 1)); !isEnd(err) {
					t.Errorf("silent link %d: %v", n+1, err)
				}
			}
		})
	}
}

// TestSilentLinksOfAnotherNode: silent links of a node do not end the link of a forwarder of another node that has not
// sent its hello yet.
func TestSilentLinksOfAnotherNode(t *testing.T) {
	r := newRelay(t, 4)
	link := r.connectSilent()
	var all []net.Conn
	for range 2 * fewCallers {
		all = append(all, r.connectSilentFrom("127.0.0.2"))
	}
	if _, err := all[fewCallers-1].Read(make([]byte, 1)); !isEnd(err) {
		t.Errorf("a silent link: %v", err)
	}
	must(t, stream.WriteJSON(link, stream.KindHello, stream.Hello{Ticket: ticketText, ID: rand.Text(), To: r.other.Addr().String()}))
	r.expect(link, stream.KindWelcome)
}

// TestLinksWhileDialing: while the relay dials, the newest link of a connection waits, and earlier links are closed: any
// number of links would take all descriptors of the relay.
func TestLinksWhileDialing(t *testing.T) {
	r := newRelay(t, 4)
	id := rand.Text()
	k := &connection{id: id, stream: stream.NewStream(stream.End{}, nil), dialed: make(chan struct{})}
	r.mu.Lock()
	k.job = r.jobs["c/1/then"]
	k.job.connections[id] = k
	r.mu.Unlock()
	var last net.Conn
	replaced := 0
	for n := range 5 {
		link := r.connectSilent()
		must(t, stream.WriteJSON(link, stream.KindHello, stream.Hello{Ticket: ticketText, ID: id, To: r.other.Addr().String()}))
		r.await("the relay has the link", func() bool { return k.unlink != nil && replaced == n })
		r.mu.Lock()
		end := k.unlink
		k.unlink = func() { replaced++; end() }
		r.mu.Unlock()
		if n > 0 {
			if _, err := last.Read(make([]byte, 1)); !isEnd(err) {
				t.Errorf("link %d, when there is a newer link: %v", n, err)
			}
		}
		last = link
	}
	close(k.dialed)
	r.expect(last, stream.KindWelcome)
}

// TestFailedIsForgotten: the relay forgets a failed connection when its forwarder knows of the failure.
func TestFailedIsForgotten(t *testing.T) {
	r := newRelay(t, 4)
	id := rand.Text()
	link, outer := r.open(id)
	r.mu.Lock()
	k := weak.Make(r.jobs["c/1/then"].connections[id])
	r.mu.Unlock()
	reset(t, outer)
	r.expect(link, stream.KindOver)
	link.Close()
	r.await("the connection is not kept", func() bool {
		runtime.GC()
		return k.Value() == nil
	})
}

// TestFailedAreBounded: connections that fail while no forwarder asks are remembered, at most as many of a user as the
// user may have connections.
func TestFailedAreBounded(t *testing.T) {
	const per = 3
	r := newRelay(t, per)
	const otherTicket = "the ticket of another job of the user"
	must(t, r.Admit(Admission{Job: "c/2/then", UID: 1001, Ticket: HashTicket(otherTicket)}))
	last := ""
	for n := range 4*per + 1 {
		last = rand.Text()
		link, outer := r.openFor([]string{ticketText, otherTicket}[n%2], last)
		link.Close()
		reset(t, outer)
		r.await("the connection has failed", func() bool { return len(r.users) == 0 })
	}
	if _, n := r.Counts(); n > per {
		t.Errorf("%d connections are remembered", n)
	}
	link := r.connectSilent()
	must(t, stream.WriteJSON(link, stream.KindHello, stream.Hello{Ticket: ticketText, ID: last, To: r.other.Addr().String(), Opened: true}))
	var o stream.ConnectionEnd
	if must(t, r.expect(link, stream.KindOver).Parse(&o)); o.Retry || o.Reason == "" {
		t.Errorf("the last that has failed: %+v", o)
	}
}

// TestForgottenJob: the relay keeps no connections of a job that is over.
func TestForgottenJob(t *testing.T) {
	r := newRelay(t, 4)
	id, failed := rand.Text(), rand.Text()
	link, outer := r.open(failed)
	link.Close()
	reset(t, outer)
	r.await("the connection has failed", func() bool { return len(r.users) == 0 })
	link, _ = r.open(id)
	r.mu.Lock()
	j := r.jobs["c/1/then"]
	all := []weak.Pointer[connection]{weak.Make(j.connections[id]), weak.Make(j.connections[failed])}
	j = nil
	r.mu.Unlock()
	r.Forget("c/1/then")
	link.Close()
	for _, k := range all {
		r.await("the connection is not kept", func() bool {
			runtime.GC()
			return k.Value() == nil
		})
	}
}

// TestPolicy: addresses to which a relay connects, and to which it does not.
func TestPolicy(t *testing.T) {
	own := func() ([]net.Addr, error) {
		return []net.Addr{&net.IPNet{IP: net.IPv4(10, 0, 0, 5), Mask: net.CIDRMask(8, 32)}}, nil
	}
	everything := netip.MustParsePrefix("0.0.0.0/0")
	deny := []netip.Prefix{netip.MustParsePrefix("100.64.0.0/16")}
	for to, want := range map[string]string{
		"198.51.100.7:443": "", "[::ffff:198.51.100.7]:443": "", "10.0.0.6:80": "",
		"198.51.100.7:0": "no address", "0.0.0.0:80": "each host", "0.1.2.3:80": "each host", "255.255.255.255:80": "each host",
		"127.0.0.1:80": "each host", "127.9.9.9:80": "each host", "[::ffff:127.0.0.1]:80": "each host", "[::ffff:127.0.0.1%1]:80": "each host",
		"[::1]:80": "each host", "[::]:80": "each host", "224.0.0.1:80": "each host",
		// Services of the machine's provider.
		"169.254.169.254:80": "each host", "[::ffff:169.254.169.254]:80": "each host", "168.63.129.16:80": "each host",
		"168.63.129.16:32526": "each host", "100.100.100.200:80": "each host", "192.0.0.192:80": "each host",
		"[2001:db8::1]:80": "no IPv4", "[fd00:ec2::254]:80": "no IPv4", "[64:ff9b::a9fe:a9fe]:80": "no IPv4",
		"100.64.3.2:22": "relay.deny", "10.0.0.5:22": "own host",
	} {
		err := (&Policy{Deny: deny, own: own}).checkAddress(netip.MustParseAddrPort(to))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("checkAddress of %s: error %v, want %q", to, err, want)
		}
		err = (&Policy{Allow: []netip.Prefix{everything}, own: own}).checkAddress(netip.MustParseAddrPort(to))
		if want == "each host" && err == nil {
			t.Errorf("%s is allowed with %s", to, everything)
		}
	}
}

// TestClaimedUse: a forwarder that falsely reports bytes as used gets no room for more bytes.
func TestClaimedUse(t *testing.T) {
	r := newRelay(t, 4)
	id := rand.Text()
	link, outer := r.open(id)
	must(t, outer.SetReadBuffer(4<<10))
	data := make([]byte, stream.MaxData)
	sent := uint64(0)
	// The other side does not read: at some time the relay keeps the bytes that come.
	for sent < 64<<20 {
		must(t, link.SetWriteDeadline(time.Now().Add(patience)))
		for range stream.Window / stream.MaxData {
			must(t, stream.WriteFrame(link, &stream.Frame{Kind: stream.KindData, Data: data}))
			sent += uint64(len(data))
		}
		r.mu.Lock()
		k := r.jobs["c/1/then"].connections[id]
		r.mu.Unlock()
		r.await("the bytes have come", func() bool { return k.stream.State().Got == sent })
		link.Close()
		if n := len(k.stream.State().In); n > stream.Window {
			t.Fatalf("the relay keeps %d bytes of %d", n, sent)
		}
		link = r.connectSilent()
		hello := stream.Hello{Ticket: ticketText, ID: id, To: r.other.Addr().String(), Opened: true, Position: stream.Position{Base: sent, Limit: sent}}
		must(t, stream.WriteJSON(link, stream.KindHello, hello))
		f, err := stream.ReadFrame(link)
		must(t, err)
		if f.Kind == stream.KindOver {
			return
		}
	}
	t.Error("the relay takes all")
}
