// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// tight has small limits, so that the fuzzer reaches them.
var tight = limits{body: 1 << 20, record: 4 << 10}

// everyField reads an answer with every record that a version has.
func everyField(d dialect) table[answer] {
	fields := answerFields
	for _, rows := range []table[answer]{
		recordsField("jobs", d.jobTable(), ignoreAnswer[Job]), recordsField("nodes", d.nodeTable(), ignoreAnswer[Node]),
		recordsField("partitions", d.partitionTable(), ignoreAnswer[Partition]), recordsField("qos", qosFields, ignoreAnswer[QOS]),
		recordsField("QOS", qosFields, ignoreAnswer[QOS]), recordsField("reservations", reservationFields, ignoreAnswer[Reservation]),
		recordsField("pings", controllerFields, ignoreAnswer[Controller]),
		{"statistics": func(s *scanner, _ *answer) { diagFields.readObject(s, &Diag{}) }},
	} {
		fields = fields.withFields(rows)
	}
	return fields
}

func ignoreAnswer[T any](*T) error { return nil }

// FuzzAnswer feeds bytes to the decoders of all versions: an error or a valid
// answer, never a panic.
func FuzzAnswer(f *testing.F) {
	seedBodies(f, func(body []byte) { f.Add(body) })
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, d := range dialects {
			a, err := decodeAnswer(bytes.NewReader(body), tight, everyField(d))
			if err != nil && !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrTooLarge) {
				t.Fatalf("%s: %v: neither malformed nor too large", d.versionName(), err)
			}
			if err == nil && !json.Valid(body) {
				t.Fatalf("%s: accepted what is not JSON: %q", d.versionName(), body)
			}
			if failure := a.failureOf(&call{method: "GET", path: "/"}, 200); failure != nil && failure.Error() == "" {
				t.Fatal("an error without a text")
			}
		}
	})
}

// FuzzSkip compares skipValue with encoding/json: both must accept the same bytes.
func FuzzSkip(f *testing.F) {
	seedBodies(f, func(body []byte) { f.Add(body) })
	for _, text := range []string{"[1,]", "{\"a\" 1}", "\"\\ud800\"", "-", "1e", "nul", strings.Repeat("[", 70)} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		err := skipAll(bytes.NewReader(body), roomy)
		if isStricter(err) {
			return
		}
		if got, want := err == nil, json.Valid(body); got != want {
			t.Fatalf("%q: valid: %v (%v), encoding/json says %v", body, got, err, want)
		}
	})
}

// isStricter reports whether an error is a limit of ours that JSON does not have.
func isStricter(err error) bool {
	return errors.Is(err, ErrTooLarge) || err != nil && (strings.Contains(err.Error(), "levels") ||
		strings.Contains(err.Error(), "a number of more than"))
}

// FuzzRef: a text that ParseRef accepts, printed and parsed again, gives the same Ref.
func FuzzRef(f *testing.F) {
	for _, text := range []string{"12", "12_3", "12+1", "", "_", "1_", "0", "-1", "99999999999999999999", "1_2_3"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ref, err := ParseRef(text)
		if err != nil {
			return
		}
		again, err := ParseRef(ref.String())
		if err != nil || again != ref {
			t.Fatalf("%q is %v, which reads as %v, %v", text, ref, again, err)
		}
	})
}

// seedBodies calls add with the bodies of the recordings.
func seedBodies(tb testing.TB, add func([]byte)) {
	paths, err := filepath.Glob("testdata/*/*/*.json")
	if err != nil || len(paths) == 0 {
		tb.Fatalf("no recordings: %v", err)
	}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			tb.Fatal(err)
		}
		var rec struct{ Body json.RawMessage }
		if err := json.Unmarshal(raw, &rec); err != nil {
			tb.Fatalf("%s: %v", path, err)
		}
		add(rec.Body)
	}
}

// endless repeats a text for ever, after a beginning.
type endless struct {
	begin, again string
	at           int
}

// newEndless makes an endless; long repetitions make the reading fast.
func newEndless(begin, again string) *endless {
	return &endless{begin: begin, again: strings.Repeat(again, 1+window/len(again))}
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.begin)
	e.begin = e.begin[n:]
	for n < len(p) {
		c := copy(p[n:], e.again[e.at:])
		n += c
		e.at = (e.at + c) % len(e.again)
	}
	return n, nil
}

// TestEndlessBodies reads answers that never end and watches the heap. Two of them
// go to a gigabyte, unless -short or -race.
func TestEndlessBodies(t *testing.T) {
	for _, test := range []struct {
		name string
		body io.Reader
		want error

		gigabyte bool
	}{
		{"white space", newEndless("{", " "), ErrTooLarge, false},
		{"a string that nobody wants", newEndless(`{"x":"`, "y"), ErrTooLarge, true},
		{"a string that is kept", newEndless(`{"jobs":[{"name":"`, "y"), ErrTooLarge, false},
		{"escapes", newEndless(`{"x":"`, `\u0041`), ErrTooLarge, false},
		{"a key", newEndless(`{"`, "k"), ErrTooLarge, false},
		{"a number", newEndless(`{"x":`, "7"), ErrMalformed, false},
		{"depth", newEndless(`{"x":`, "["), ErrMalformed, false},
		{"members", newEndless("{", `"a":1,`), ErrTooLarge, false},
		{"jobs", newEndless(`{"jobs":[`, `{"job_id":1,"x":"`+strings.Repeat("y", 1000)+`"},`), ErrTooLarge, true},
		{"new names", newEndless(`{"jobs":[{"gres_detail":[`, `"0123456789abcdef",`), ErrTooLarge, false},
		{"nodes of a job", newEndless(`{"jobs":[{"job_resources":{"allocated_nodes":[`, "{},"), ErrTooLarge, false},
		{"errors", newEndless(`{"errors":[`, `{"error":"x"},`), ErrTooLarge, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			l := limits{body: 16 << 20, record: defaultMaxRecord}
			if test.gigabyte && !testing.Short() && !underRace {
				l.body = 1 << 30
			}
			_, err := decodeAnswer(test.body, l, everyField(v0042{modernVersion{V0042}}))
			runtime.ReadMemStats(&after)
			if !errors.Is(err, test.want) {
				t.Errorf("error %v; want %v", err, test.want)
			}
			if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > 64<<20 {
				t.Errorf("the heap grew by %d MiB", grown>>20)
			}
		})
	}
}

// TestWrongTypes puts each wrong kind of value where a field is read: the result is an error that
// names the place, or a value that the field can take, never a panic.
func TestWrongTypes(t *testing.T) {
	values := []string{"null", "true", "7", "-7.5e2", `""`, `"text"`, "[]", "[1]", `["a","b"]`, "[[]]", "{}", `{"set":1}`, `{"a":[{}]}`}
	for _, d := range dialects {
		for field := range d.jobTable() {
			for _, value := range values {
				body := `{"jobs":[{"` + field + `":` + value + `}]}`
				_, err := decodeAnswer(strings.NewReader(body), tight, everyField(d))
				if value == "null" && err != nil && field != "job_state" {
					t.Errorf("%s: %s: %v; a null is nothing", d.versionName(), body, err)
				}
				if err != nil && !errors.Is(err, ErrMalformed) {
					t.Errorf("%s: %s: %v; want no error or ErrMalformed", d.versionName(), body, err)
				}
			}
		}
	}
	for body, says := range map[string]string{
		`[]`:                          "where an object should be",
		`{"jobs":{}}`:                 "'[' should be",
		`{"jobs":[1]}`:                "'{' should be",
		`{"jobs":[{"job_id":"x"}]}`:   `"x" is not a 64-bit number`,
		`{"jobs":[{"job_id":[]}]}`:    "is no value",
		`{"jobs":[{"name":{}}]}`:      "is no value",
		`{"jobs":[{"hold":"maybe"}]}`: "not a 64-bit number",
		`{"jobs":[{"job_state":{}}]}`: `'"' should be`,
	} {
		_, err := decodeAnswer(strings.NewReader(body), tight, everyField(v0045{modernVersion{V0045}}))
		if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error %v; want one that says %q", body, err, says)
		}
	}
}
