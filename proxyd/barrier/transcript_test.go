// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package barrier

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the transcripts anew; commit only what you understand")

// TestTranscripts: each file of testdata has events, a line ----, the effects that the Barrier
// returns for them, and an empty line, as often as necessary. Its first line makes the Barrier:
//
//	new 3 A=0,1 B=1,2          three ranks, and the members of the communicators
//	start                      | tick | deadline | aborted A
//	shut 1 A=2 A>0=1 A<2=1     issued, withdrawn, reading, ended: rank, then counts: collectives
//	                           on A, sends to its member 0, receives from member 2;
//	                           A.1=2 where a rank has several members
//	issued 1 A=3 by nudge
//	drained 1                  | calls-shut 1 | died 1 | stuck 1 WHY
//	met N=0,1 [begun]          | created N
//	destroyed 1 A A=2
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("transcripts = %v, %v, want some", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := playTranscript(t, string(want))
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if !bytes.Equal(got, want) {
				t.Errorf("the transcript differs from the golden file:\n%s", got)
			}
		})
	}
}

// playTranscript plays the events of a transcript and returns the transcript with the new answers.
func playTranscript(t *testing.T, text string) []byte {
	p := player{t: t, members: make(map[Comm][]Rank)}
	var out bytes.Buffer
	var said []string
	answers := false
	flush := func() {
		if !answers {
			return
		}
		if len(said) == 0 {
			said = []string{"wait"}
		}
		fmt.Fprintf(&out, "----\n%s\n\n", strings.Join(said, "\n"))
		answers, said = false, nil
	}
	for l := range strings.Lines(text) {
		l = strings.TrimSuffix(l, "\n")
		switch words := strings.Fields(l); {
		case l == "----":
			answers = true
		case l == "":
			flush()
		case answers: // answers of an earlier run
		default:
			fmt.Fprintln(&out, l)
			if words[0] != "#" {
				said = append(said, p.playLine(words)...)
			}
		}
	}
	flush()
	return append(bytes.TrimRight(out.Bytes(), "\n"), '\n')
}

type player struct {
	t       *testing.T
	b       *Barrier
	members map[Comm][]Rank
}

// playLine plays a single event.
func (p *player) playLine(words []string) []string {
	arg := func(i int) string { return words[i] }
	if words[0] == "new" {
		comms := parseComms(strings.Join(words[2:], " "))
		p.knowComms(comms...)
		p.b = New(parseNumber(arg(1)), comms...)
		return nil
	}
	e := p.parseEvent(words, arg)
	return p.describeEffects(p.b.Step(e))
}

func (p *player) knowComms(comms ...Communicator) {
	for _, c := range comms {
		p.members[c.Comm] = c.Members
	}
}

func (p *player) parseEvent(words []string, arg func(int) string) Event {
	switch words[0] {
	case "start":
		return Start{}
	case "tick":
		return Tick{}
	case "deadline":
		return Deadline{}
	case "aborted":
		return Aborted{commOf(arg(1))}
	case "created":
		return Created{uint64(commOf(arg(1)))}
	case "met":
		makes := parseComms(arg(1))
		p.knowComms(makes...)
		return Met{Rendezvous{uint64(makes[0].Comm), makes[0].Members, makes}, slices.Contains(words, "begun")}
	}
	who := Rank(parseNumber(arg(1)))
	switch words[0] {
	case "shut":
		return Shut{who, p.parseCounts(who, words[2:])}
	case "issued":
		nudge := strings.HasSuffix(strings.Join(words, " "), "by nudge")
		return Issued{who, p.parseCounts(who, words[2:]), nudge}
	case "withdrawn":
		return Withdrawn{who, p.parseCounts(who, words[2:])}
	case "reading":
		return Reading{who, p.parseCounts(who, words[2:])}
	case "ended":
		return Ended{who, p.parseCounts(who, words[2:])}
	case "drained":
		return Drained{who}
	case "calls-shut":
		return CallsShut{who}
	case "died":
		return Died{who}
	case "stuck":
		return Stuck{who, strings.Join(words[2:], " ")}
	case "destroyed":
		m := slices.Index(p.members[commOf(arg(2))], who)
		return Destroyed{who, commOf(arg(2)), int32(m), p.parseCounts(who, words[3:])}
	}
	p.t.Fatalf("no event: %s", words)
	return nil
}

func (p *player) parseCounts(who Rank, words []string) []Count {
	var counts []Count
	for _, word := range words {
		name, n, ok := strings.Cut(word, "=")
		if !ok {
			break // by nudge
		}
		k := Key{Comm: commOf(name)}
		k.Member = int32(max(0, slices.Index(p.members[k.Comm], who)))
		rest := name[1:]
		if i := strings.IndexAny(rest, "<>"); i >= 0 {
			k.Kind, k.Peer = Send, int32(parseNumber(rest[i+1:]))
			if rest[i] == '<' {
				k.Kind = Recv
			}
			rest = rest[:i]
		}
		if m, ok := strings.CutPrefix(rest, "."); ok {
			k.Member = int32(parseNumber(m))
		}
		counts = append(counts, Count{k, uint64(parseNumber(n))})
	}
	return counts
}

// describeEffects returns the actions of the effects in words.
func (p *player) describeEffects(e Effects) []string {
	var out []string
	say := func(yes bool, format string, args ...any) {
		if yes {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	say(e.Shut, "shut all gates")
	say(len(e.Withdraw) > 0, "withdraw %v", e.Withdraw)
	for _, r := range e.Raise {
		var targets []string
		for _, t := range r.Targets {
			name := strings.Replace(t.String(), fmt.Sprint(t.Comm), string(rune('A'+t.Comm-1)), 1)
			if p.hasSingleMembers(t.Comm) {
				name = strings.Replace(name, fmt.Sprintf(".%d", t.Member), "", 1)
			}
			targets = append(targets, fmt.Sprintf("%s=%d", name, t.N))
		}
		say(true, "raise %d to %s", r.Rank, strings.Join(targets, " "))
	}
	say(len(e.Nudge) > 0, "nudge %v", e.Nudge)
	for _, id := range e.Create {
		say(true, "create %c", rune('A'+id-1))
	}
	say(e.Read, "read again")
	say(e.Drain, "drain")
	say(e.ShutCalls, "shut all calls")
	say(e.Cut, "cut")
	if e.Failed != nil {
		say(true, "failed (%v; ranks %v, communicators %v): %v", e.Failed.Why, e.Failed.Ranks, e.Failed.Comms, e.Failed)
	}
	return out
}

// hasSingleMembers says whether no rank has two members of a communicator.
func (p *player) hasSingleMembers(c Comm) bool {
	m := slices.Clone(p.members[c])
	slices.Sort(m)
	return len(slices.Compact(m)) == len(p.members[c])
}
