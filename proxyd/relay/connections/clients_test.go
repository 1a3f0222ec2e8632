// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"crypto/rand"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/relay/stream"
)

const clientJob = "c/9/then"

// listening has the relay listen for clients of a job at port 8888, with a range of free ports.
func (r *relay) listening(run int, connections ...string) ListeningPort {
	r.t.Helper()
	must(r.t, r.Admit(Admission{Job: clientJob, UID: 1002, Run: run, Ticket: HashTicket(runTicket(run)), Connections: connections, Listen: []uint16{8888}}))
	all := r.Listening(clientJob)
	if len(all) != 1 || all[0].Port != 8888 {
		r.t.Fatalf("Listening = %+v, want port 8888 alone", all)
	}
	return all[0]
}

func runTicket(run int) string { return "the ticket of run " + strconv.Itoa(run) }

// newClientRelay is newRelay, with a part of the ports that programs of this host get by themselves.
func newClientRelay(t *testing.T) *relay {
	t.Helper()
	r := newRelay(t, 4)
	r.cfg.Clients = Clients{First: 40000, Last: 49999, PerUser: 2, PerPort: 3, WaitAtMost: time.Hour}
	return r
}

// connectClient connects as a client.
func (r *relay) connectClient(l ListeningPort) *net.TCPConn {
	return r.connectClientFrom("127.0.0.1", l)
}

// connectClientFrom connects as a client of a host.
func (r *relay) connectClientFrom(host string, l ListeningPort) *net.TCPConn {
	r.t.Helper()
	c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(host)}}).Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(l.Public))))
	must(r.t, err)
	r.t.Cleanup(func() { c.Close() })
	must(r.t, c.SetDeadline(time.Now().Add(patience)))
	return c.(*net.TCPConn)
}

// offers makes the link for offers of a run.
func (r *relay) offers(run int) net.Conn {
	r.t.Helper()
	link := r.connectSilent()
	must(r.t, stream.WriteJSON(link, stream.KindHello, stream.Hello{Ticket: runTicket(run), Offers: true}))
	r.expect(link, stream.KindWelcome)
	return link
}

func (r *relay) offer(link net.Conn) (o stream.Offer) {
	r.t.Helper()
	must(r.t, r.expect(link, stream.KindOffer).Parse(&o))
	return o
}

// take takes an offered connection.
func (r *relay) take(run int, o stream.Offer, at stream.Position) net.Conn {
	r.t.Helper()
	link := r.connectSilent()
	must(r.t, stream.WriteJSON(link, stream.KindHello, stream.Hello{Ticket: runTicket(run), ID: o.ID, To: o.From, Opened: true, Position: at}))
	r.expect(link, stream.KindWelcome)
	return link
}

// isReset tells that the relay has reset a client.
func (r *relay) isReset(c *net.TCPConn) {
	r.t.Helper()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
		r.t.Errorf("the client: %v, want a reset", err)
	}
}

// isRefused tells that the relay resets another client, perhaps before net.Dial returns.
func (r *relay) isRefused(l ListeningPort) {
	r.t.Helper()
	r.isRefusedFrom("127.0.0.1", l)
}

// isRefusedFrom is isRefused for a client of a host.
func (r *relay) isRefusedFrom(host string, l ListeningPort) {
	r.t.Helper()
	c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(host)}}).Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(l.Public))))
	if err == nil {
		defer c.Close()
		must(r.t, c.SetDeadline(time.Now().Add(patience)))
		r.isReset(c.(*net.TCPConn))
	} else if !errors.Is(err, unix.ECONNRESET) {
		r.t.Error(err)
	}
}

// TestClients: clients are offered to the job's forwarder, wait while it is away, and are kept from run to run.
func TestClients(t *testing.T) {
	r := newClientRelay(t)
	at := r.listening(0)
	first := r.connectClient(at)
	_, err := io.WriteString(first, "question")
	must(t, err)
	link := r.offers(0)
	o := r.offer(link)
	if o.Port != 8888 || o.From != first.LocalAddr().String() {
		t.Errorf("offer %+v, of %s", o, first.LocalAddr())
	}
	taken := r.take(0, o, stream.Position{})
	if f := r.expect(taken, stream.KindData); string(f.Data) != "question" {
		t.Errorf("data of the client = %q, want its question", f.Data)
	}
	lost := r.connectClient(at) // taken by a forwarder; then the job resumes from a checkpoint without it
	r.take(0, r.offer(link), stream.Position{})
	waits := r.connectClient(at) // offered and not taken
	r.offer(link)

	// Another run: the port is the same, and the link for offers of the run before ends.
	if again := r.listening(1, o.ID); again != at {
		t.Errorf("Listening = %+v, then %+v in the next run, want the same port", at, again)
	}
	r.isReset(lost)
	if _, err := stream.ReadFrame(link); err == nil {
		t.Error("the link of the run before goes on")
	}
	old := r.connectSilent()
	must(t, stream.WriteJSON(old, stream.KindHello, stream.Hello{Ticket: runTicket(0), Offers: true}))
	r.expect(old, stream.KindOver)
	taken = r.take(1, o, stream.Position{Received: 8})
	must(t, stream.WriteFrame(taken, &stream.Frame{Kind: stream.KindData, Data: []byte("answer")}))
	b := make([]byte, len("answer"))
	if _, err := io.ReadFull(first, b); err != nil || string(b) != "answer" {
		t.Errorf("the client read %q, %v, want the answer", b, err)
	}
	link = r.offers(1)
	o = r.offer(link)
	if o.From != waits.LocalAddr().String() {
		t.Errorf("offer %+v, of %s", o, waits.LocalAddr())
	}

	r.checkEnds(at, o, waits, first)
}

// checkEnds has the program not take a client, and then ends the job.
func (r *relay) checkEnds(at ListeningPort, o stream.Offer, waits, first *net.TCPConn) {
	t := r.t
	t.Helper()
	over := r.connectSilent()
	must(t, stream.WriteJSON(over, stream.KindHello, stream.Hello{Ticket: runTicket(1), ID: o.ID, To: o.From, Opened: true, Over: "nothing listens"}))
	r.isReset(waits)

	r.Forget(clientJob)
	r.isReset(first)
	if c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(at.Public)))); err == nil {
		c.Close()
		t.Error("the port of a job that is over is open")
	}
	r.await("nothing remains", func() bool { return len(r.taken) == 0 && len(r.jobs) == 1 })
}

// TestClientLimits: ports of a user and clients of a port are bounded, clients do not wait forever, and a relay does
// not listen unless its site has named ports.
func TestClientLimits(t *testing.T) {
	r := newRelay(t, 4)
	if l := r.listening(0); l.Public != 0 || !strings.Contains(l.Problem, "clients.ports") {
		t.Errorf("without ports: %+v", l)
	}
	r = newClientRelay(t)
	at := r.listening(0)
	var all []*net.TCPConn
	for range r.cfg.Clients.PerPort {
		all = append(all, r.connectClient(at))
	}
	r.await("the clients are there", func() bool { return len(r.jobs[clientJob].connections) == len(all) })
	r.isRefused(at)
	reset(t, all[0])
	r.await("a client that has gone is forgotten", func() bool { return len(r.jobs[clientJob].connections) == len(all)-1 })
	for n, want := range []string{"", "clients.per_user"} {
		job := rand.Text()
		must(t, r.Admit(Admission{Job: job, UID: 1002, Ticket: rand.Text(), Listen: []uint16{6006}}))
		l := r.Listening(job)[0]
		if want == "" && l.Problem != "" || want != "" && (l.Public != 0 || !strings.Contains(l.Problem, want)) {
			t.Errorf("port %d of the user: %+v, want %q", n+2, l, want)
		}
	}
	r = newClientRelay(t)
	r.cfg.Clients.WaitAtMost = time.Millisecond
	r.isRefused(r.listening(0))
}

// TestClientsOfAHost: clients of a host that wait do not keep out clients of other hosts: the oldest makes way. Clients that a
// forwarder has taken keep their places.
func TestClientsOfAHost(t *testing.T) {
	r := newClientRelay(t)
	at := r.listening(0)
	link := r.offers(0)
	taken := r.connectClient(at)
	carried := r.take(0, r.offer(link), stream.Position{})
	oldest, next := r.connectClient(at), r.connectClient(at)
	r.offer(link)
	r.offer(link)
	other := r.connectClientFrom("127.0.0.2", at)
	if o := r.offer(link); o.From != other.LocalAddr().String() {
		t.Errorf("offer %+v, want the client of the other host, %s", o, other.LocalAddr())
	}
	r.isReset(oldest)
	r.await("the client that made way is forgotten", func() bool { return len(r.jobs[clientJob].connections) == r.cfg.Clients.PerPort })
	r.isRefusedFrom("127.0.0.3", at) // no host has more than 127.0.0.3 would
	for name, c := range map[string]*net.TCPConn{"taken": taken, "waiting": next, "of the other host": other} {
		_, err := io.WriteString(c, name)
		must(t, err)
	}
	if f := r.expect(carried, stream.KindData); string(f.Data) != "taken" {
		t.Errorf("data of the client that was taken = %q", f.Data)
	}
}
