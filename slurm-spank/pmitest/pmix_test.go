// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package pmitest

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The kinds of frames for PMIx, as in pmi.h.
const (
	frameHello     = 1
	frameCollect   = 7
	frameAsk       = 8
	frameTell      = 9
	frameCollected = 19
	frameAsked     = 20
	frameTold      = 21
)

func encodeNumbers(all ...uint32) (s string) {
	for _, n := range all {
		s += string(binary.BigEndian.AppendUint32(nil, n))
	}
	return s
}

// pmixServer talks to a hub as sing-pmix does.
type pmixServer struct {
	net.Conn
	t *testing.T
}

func startPMIx(t *testing.T, place string, rank, size uint32) pmixServer {
	t.Helper()
	s := pmixServer{dialHub(t, place), t}
	s.sendFrame(frameHello, encodeNumbers(rank, size)+strings.Split(place, ":")[2])
	return s
}

func startPMIxStep(t *testing.T, size uint32) (place string, all []pmixServer) {
	t.Helper()
	place = startHub(t)
	for rank := range size {
		all = append(all, startPMIx(t, place, rank, size))
	}
	return place, all
}

func (s pmixServer) sendFrame(kind byte, body string) {
	s.t.Helper()
	if _, err := s.Write([]byte(makeFrame(kind, body))); err != nil {
		s.t.Fatal(err)
	}
}

// expectFrame checks the next frame. The hub joins the data of a collective in the order in which they came, so the
// data are sorted before the check.
func (s pmixServer) expectFrame(kind byte, body string) {
	s.t.Helper()
	_ = s.SetReadDeadline(time.Now().Add(patience))
	header := make([]byte, 5)
	if _, err := io.ReadFull(s, header); err != nil {
		s.t.Fatal(err)
	}
	got := make([]byte, binary.BigEndian.Uint32(header))
	if _, err := io.ReadFull(s, got); err != nil {
		s.t.Fatal(err)
	}
	if kind == frameCollected && len(got) > 12 {
		slices.Sort(got[12:])
	}
	if header[4] != kind || string(got) != body {
		s.t.Fatalf("frame of kind %d with %q, want kind %d with %q", header[4], got, kind, body)
	}
}

// contribute contributes to a collective of ranks; without ranks, of all ranks.
func (s pmixServer) contribute(request, kind uint32, name, data string, ranks ...uint32) {
	s.t.Helper()
	signature := encodeNumbers(kind, uint32(len(ranks))) + encodeNumbers(ranks...) + name
	s.sendFrame(frameCollect, encodeNumbers(request, uint32(len(signature)))+signature+data)
}

// TestCollectives: collectives of all ranks and of some go on beside each other, each with a number of its own.
func TestCollectives(t *testing.T) {
	t.Parallel()
	_, s := startPMIxStep(t, 3)
	s[2].contribute(7, 1, "", "c")
	s[0].contribute(1, 4, "group", "x", 0, 2)
	s[0].contribute(2, 1, "", "a")
	s[2].contribute(8, 4, "group", "y", 0, 2)
	s[2].expectFrame(frameCollected, encodeNumbers(8, 0, 1)+"xy")
	s[0].expectFrame(frameCollected, encodeNumbers(1, 0, 1)+"xy")
	s[0].contribute(3, 1, "", "A") // to the same collective again, before the first one is complete
	s[1].contribute(5, 1, "", "b")
	s[0].expectFrame(frameCollected, encodeNumbers(2, 0, 2)+"abc")
	s[1].expectFrame(frameCollected, encodeNumbers(5, 0, 2)+"abc")
	s[2].expectFrame(frameCollected, encodeNumbers(7, 0, 2)+"abc")
	s[1].contribute(6, 1, "", "B")
	s[2].contribute(9, 1, "", "C")
	s[0].expectFrame(frameCollected, encodeNumbers(3, 0, 3)+"ABC")
	s[0].contribute(4, 2, "", "", 0)
	s[0].expectFrame(frameCollected, encodeNumbers(4, 0, 4))
}

// TestCollectiveLost: a rank that leaves fails the collectives of which it is a member, now and later, and no other
// collectives. A step that begins anew with the same hub is not disturbed.
func TestCollectiveLost(t *testing.T) {
	t.Parallel()
	place, s := startPMIxStep(t, 3)
	s[0].contribute(1, 1, "", "a")
	s[0].contribute(2, 1, "", "a", 0, 2)
	s[1].Close()
	s[0].expectFrame(frameCollected, encodeNumbers(1, 1, 0))
	s[2].contribute(7, 1, "", "c")
	s[2].expectFrame(frameCollected, encodeNumbers(7, 1, 0))
	s[2].contribute(8, 1, "", "c", 0, 2)
	s[0].expectFrame(frameCollected, encodeNumbers(2, 0, 1)+"ac")
	s[2].expectFrame(frameCollected, encodeNumbers(8, 0, 1)+"ac")
	s[0].sendFrame(frameAsk, encodeNumbers(3, 1))
	s[0].expectFrame(frameTold, encodeNumbers(3, 1))
	s[1] = startPMIx(t, place, 1, 3) // the rank's program has called MPI again
	s[1].contribute(9, 5, "", "", 1)
	s[1].expectFrame(frameCollected, encodeNumbers(9, 0, 2))
	for i := range s {
		s[i].contribute(10, 1, "", fmt.Sprint(i))
	}
	for i := range s {
		s[i].expectFrame(frameCollected, encodeNumbers(10, 0, 3)+"012")
	}
}

// TestQuestions: a question waits until the rank that it is for has connected, and fails when that rank leaves.
func TestQuestions(t *testing.T) {
	t.Parallel()
	place := startHub(t)
	a, b := startPMIx(t, place, 0, 3), startPMIx(t, place, 1, 3)
	a.sendFrame(frameAsk, encodeNumbers(1, 2))
	b.sendFrame(frameAsk, encodeNumbers(1, 2))
	a.contribute(2, 1, "", "", 0) // the hub has read a's question
	a.expectFrame(frameCollected, encodeNumbers(2, 0, 1))
	b.contribute(2, 1, "", "", 1)
	b.expectFrame(frameCollected, encodeNumbers(2, 0, 2))
	c := startPMIx(t, place, 2, 3)
	c.expectFrame(frameAsked, encodeNumbers(1, 1))
	c.expectFrame(frameAsked, encodeNumbers(0, 1))
	c.sendFrame(frameTell, encodeNumbers(0, 1, 0)+"keys")
	a.expectFrame(frameTold, encodeNumbers(1, 0)+"keys")
	c.sendFrame(frameTell, encodeNumbers(0, 1, 0)+"again")  // the rank was not asked
	c.sendFrame(frameTell, encodeNumbers(17, 1, 0)+"again") // a rank that does not exist
	c.Close()
	b.expectFrame(frameTold, encodeNumbers(1, 1))
}

// TestManyQuestions: the number of open questions of a rank is limited, and the hub answers a question beyond the limit
// at once. An answer makes room for another question.
func TestManyQuestions(t *testing.T) {
	t.Parallel()
	const size, most = 3, 4 * 3
	place := startHub(t)
	a, b := startPMIx(t, place, 0, size), startPMIx(t, place, 1, size)
	for n := range uint32(most) {
		a.sendFrame(frameAsk, encodeNumbers(n, 1))
		b.expectFrame(frameAsked, encodeNumbers(0, n))
	}
	for n := range uint32(1000) {
		a.sendFrame(frameAsk, encodeNumbers(most+n, 2))
		a.expectFrame(frameTold, encodeNumbers(most+n, 2))
	}
	b.sendFrame(frameAsk, encodeNumbers(1, 0)) // another rank has questions of its own
	a.expectFrame(frameAsked, encodeNumbers(1, 1))
	b.sendFrame(frameTell, encodeNumbers(0, 5, 0)+"keys")
	a.expectFrame(frameTold, encodeNumbers(5, 0)+"keys")
	a.sendFrame(frameAsk, encodeNumbers(5, 1))
	b.expectFrame(frameAsked, encodeNumbers(0, 5))
	c := startPMIx(t, place, 2, size) // is not asked for its keys
	c.contribute(1, 1, "", "", 2)
	c.expectFrame(frameCollected, encodeNumbers(1, 0, 1))
}

// TestWrongFrames: the hub drops a server that sends a wrong frame, and goes on.
func TestWrongFrames(t *testing.T) {
	t.Parallel()
	place := startHub(t)
	startPMIx(t, place, 1, 3)
	for name, say := range map[string]string{
		"short":                    makeFrame(frameCollect, encodeNumbers(1)),
		"seven bytes":              makeFrame(frameCollect, encodeNumbers(1)+"abc"),
		"a long signature":         makeFrame(frameCollect, encodeNumbers(1, 9, 1, 0)),
		"a short signature":        makeFrame(frameCollect, encodeNumbers(1, 4, 1)),
		"ranks that are not there": makeFrame(frameCollect, encodeNumbers(1, 8, 1, 2)),
		"no such rank":             makeFrame(frameCollect, encodeNumbers(1, 12, 1, 1, 3)),
		"a rank twice":             makeFrame(frameCollect, encodeNumbers(1, 20, 1, 3, 0, 1, 1)),
		"of others":                makeFrame(frameCollect, encodeNumbers(1, 16, 1, 2, 1, 2)),
		"many ranks":               makeFrame(frameCollect, encodeNumbers(1, 8, 1, 0xffffffff)),
		"a question to nobody":     makeFrame(frameAsk, encodeNumbers(1, 3)),
		"a short question":         makeFrame(frameAsk, encodeNumbers(1)),
		"a short answer":           makeFrame(frameTell, encodeNumbers(0, 1)),
	} {
		t.Run(name, func(t *testing.T) {
			s := startPMIx(t, place, 0, 3)
			if _, err := s.Write([]byte(say)); err != nil {
				t.Fatal(err)
			}
			isClosed(t, s)
		})
	}
}

// FuzzHub sends a hub, under sanitizers, arbitrary bytes in the place of the frames that a server of PMIx sends after
// its HELLO.
func FuzzHub(f *testing.F) {
	for _, seed := range []string{
		makeFrame(frameCollect, encodeNumbers(1, 8, 1, 0)+"data") + makeFrame(frameCollect, encodeNumbers(2, 12, 4, 1, 0)+"x"),
		makeFrame(frameCollect, encodeNumbers(1, 16, 1, 2, 0, 1)), makeFrame(frameAsk, encodeNumbers(1, 1)) + makeFrame(frameAsk, encodeNumbers(2, 0)),
		makeFrame(frameTell, encodeNumbers(0, 2, 0)+"keys"), makeFrame(2, "") + makeFrame(6, ""),
	} {
		f.Add([]byte(seed))
	}
	place := startHub(f)
	at := strings.Split(place, ":")
	f.Fuzz(func(t *testing.T, input []byte) {
		c, err := net.Dial("tcp", at[0]+":"+at[1])
		if err != nil {
			t.Fatalf("the hub died: %v", err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(patience))
		_, err = c.Write([]byte(makeFrame(frameHello, encodeNumbers(0, 3)+at[2]) + string(input)))
		if tcp, ok := c.(*net.TCPConn); ok && err == nil {
			err = tcp.CloseWrite()
		}
		if err == nil {
			_, err = io.Copy(io.Discard, c)
		}
		if err != nil && !strings.Contains(err.Error(), "reset") && !strings.Contains(err.Error(), "broken pipe") {
			t.Fatalf("sending %q to the hub: %v", input, err)
		}
	})
}

// TestPMIxABI compares the layouts and numbers in pmix/abi.h with PMIx's headers.
func TestPMIxABI(t *testing.T) {
	include := os.Getenv("PMIX_INCLUDE")
	if include == "" {
		found, _ := filepath.Glob("/usr/lib/*/pmix2/include/pmix_server.h")
		if len(found) == 0 {
			t.Skip("SKIP: needs libpmix-dev, or PMIx's headers in PMIX_INCLUDE")
		}
		include = filepath.Dir(found[0])
	}
	program := filepath.Join(t.TempDir(), "abi")
	if text, err := exec.Command("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-I", include, "-o", program, "testdata/abi.c").CombinedOutput(); err != nil {
		t.Fatalf("compiling testdata/abi.c: %v\n%s", err, text)
	}
	if err := exec.Command(program).Run(); err != nil {
		t.Errorf("attributes have other names: %v", err)
	}
}
