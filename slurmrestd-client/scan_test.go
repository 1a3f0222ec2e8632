// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import (
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
)

var roomy = limits{body: 1 << 30, record: 1 << 20}

// skipAll reads a single value of any kind up to the end of the text.
func skipAll(src io.Reader, l limits) error {
	s := newScanner(src, l)
	s.skipValue()
	return s.checkEnd()
}

func TestScannerRefuses(t *testing.T) {
	for _, test := range []struct{ name, text, says string }{
		{"nothing", "", "unexpected EOF"},
		{"space", " \n\t", "unexpected EOF"},
		{"half an object", `{"a":1`, "unexpected EOF"},
		{"half a string", `"abc`, "unexpected EOF"},
		{"half an escape", `"a\u00`, "unexpected EOF"},
		{"half a literal", "tru", "unexpected EOF"},
		{"wrong literal", "trux", "is not true"},
		{"two values", "1 2", `'2' after the end`},
		{"no colon", `{"a" 1}`, `':' should be`},
		{"no comma", `[1 2]`, `',' or ']' should be`},
		{"trailing comma in array", "[1,]", "is no value"},
		{"trailing comma in object", `{"a":1,}`, `'"' should be`},
		{"leading comma", "[,1]", "is no value"},
		{"key without quotes", "{a:1}", `'"' should be`},
		{"crossed brackets", "[1}", `']' should be`},
		{"leading zero", "01", "is no value"},
		{"plus", "+1", "is no value"},
		{"bare point", "1.", "is no value"},
		{"bare exponent", "1e", "is no value"},
		{"two points", "1.2.3", "is no value"},
		{"NaN", "NaN", "is no value"},
		{"word", "hello", "is no value"},
		{"tab in a string", "\"a\tb\"", "control character 0x09"},
		{"NUL between tokens", "[1,\x00 2]", "control character 0x00"},
		{"unknown escape", `"\x41"`, `escape \x`},
		{"bad digits", `"\u00g0"`, `'g' in a \u escape`},
		{"deep arrays", strings.Repeat("[", 1000), "more than 64 levels"},
		{"deep objects", strings.Repeat(`{"a":`, 1000), "more than 64 levels"},
		{"long number", strings.Repeat("1", 1000), "more than 64 characters"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, src := range []io.Reader{
				strings.NewReader(test.text),
				iotest.OneByteReader(strings.NewReader(test.text)),
				iotest.DataErrReader(strings.NewReader(test.text)),
			} {
				err := skipAll(src, roomy)
				if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), test.says) {
					t.Errorf("%q: error %v; want one that says %q", test.text, err, test.says)
				}
			}
		})
	}
}

func TestScannerAccepts(t *testing.T) {
	for _, text := range []string{
		"null", "true", "false", "0", "-0", "-1.5e+10", "1E5", `""`, `"a\"b"`, `"\u00e9\ud83d\ude00"`,
		"[]", "{}", " [ ] ", " { } ", `[[],{},[{}]]`, `{"a":{"b":[1,2,{"c":null}]},"d":"e"}`,
		strings.Repeat("[", 64) + strings.Repeat("]", 64),
		`"` + strings.Repeat("x", 3*window) + `"`,
		`{"` + strings.Repeat("k", maxKey) + `":1}`,
	} {
		for _, src := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
			if err := skipAll(src, roomy); err != nil {
				t.Errorf("skipAll(%.60q): %v", text, err)
			}
		}
	}
}

// TestScannerStrings compares with encoding/json, at every place of the window.
func TestScannerStrings(t *testing.T) {
	for _, text := range []string{
		"", "plain", "quote \" backslash \\ slash /", "\b\f\n\r\t", "é ☃ 😀", "\x00\x1f",
	} {
		quoted, _ := json.Marshal(text)
		for _, offset := range []int{0, window - 2, window - 1, window, window + 1} {
			src := strings.NewReader(strings.Repeat(" ", offset) + string(quoted))
			s := newScanner(src, roomy)
			if got := s.readText(); got != text || s.checkEnd() != nil {
				t.Errorf("text %s at offset %d, read = %q, %v", quoted, offset, got, s.err)
			}
		}
	}
	for quoted, want := range map[string]string{
		`"\ud83d"`:       "\ufffd",
		`"\ud83dx"`:      "\ufffdx",
		`"\ud83d\n"`:     "\ufffd\n",
		`"\ud83d\u0041"`: "\ufffd",
		"\"\xff\"":       "\ufffd",
	} {
		for _, src := range []io.Reader{strings.NewReader(quoted), iotest.OneByteReader(strings.NewReader(quoted))} {
			s := newScanner(src, roomy)
			if got := s.readText(); got != want || s.checkEnd() != nil {
				t.Errorf("%q: %q, %v; want %q", quoted, got, s.err, want)
			}
		}
	}
}

func TestScannerNumbers(t *testing.T) {
	inf := Number{Set: true, Infinite: true}
	for _, test := range []struct {
		text string
		want Number
		says string
	}{
		{"null", Number{}, ""},
		{"0", Num(0), ""},
		{"-1", Num(-1), ""},
		{"7.9", Num(7), ""},
		{"1e3", Num(1000), ""},
		{`"12"`, Num(12), ""},
		{`""`, Number{}, ""},
		{`"Infinity"`, inf, ""},
		{`"UNLIMITED"`, inf, ""},
		{"4294967295", inf, ""},
		{"4294967294", Number{}, ""},
		{"18446744073709551615", inf, ""},
		{"18446744073709551614", Number{}, ""},
		{"9223372036854775807", Num(1<<63 - 1), ""},
		{"6090154488", Num(6090154488), ""},
		{`{"set":true,"infinite":false,"number":5}`, Num(5), ""},
		{`{"number":5,"infinite":false,"set":true,"new":[]}`, Num(5), ""},
		{`{"set":false,"infinite":false,"number":5}`, Number{}, ""},
		{`{"set":false,"infinite":true,"number":0}`, inf, ""},
		{"{}", Number{}, ""},
		{"9223372036854775808", Number{}, "not a 64-bit number"},
		{"1e300", Number{}, "not a 64-bit number"},
		{`"NaN"`, Number{}, "not a 64-bit number"},
		{`"0x10"`, Number{}, "not a 64-bit number"},
		{`"twelve"`, Number{}, "not a 64-bit number"},
		{"true", Number{}, "is no value"},
		{"[1]", Number{}, "is no value"},
	} {
		s := newScanner(strings.NewReader(test.text), roomy)
		got := s.readNumber()
		err := s.checkEnd()
		if test.says == "" && (got != test.want || err != nil) {
			t.Errorf("%s: %+v, %v; want %+v", test.text, got, err, test.want)
		}
		if test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)) {
			t.Errorf("%s: %v; want an error that says %q", test.text, err, test.says)
		}
	}
}

// TestScannerAgrees makes random changes to a real answer and compares the verdict
// with encoding/json's.
func TestScannerAgrees(t *testing.T) {
	seed := []byte(`{"jobs":[{"job_id":1,"name":"a\u0041\n","t":{"set":true,"number":1.5e3},"l":[null,true,false,""]}],"errors":[]}`)
	rng := rand.New(rand.NewPCG(1, 2))
	alphabet := `{}[]",:\ntrufalse0123.e+- u`
	for range 30_000 {
		text := append([]byte(nil), seed...)
		for range 1 + rng.IntN(3) {
			text[rng.IntN(len(text))] = alphabet[rng.IntN(len(alphabet))]
		}
		if got, want := skipAll(strings.NewReader(string(text)), roomy) == nil, json.Valid(text); got != want {
			t.Fatalf("%s: valid: %v, encoding/json says %v", text, got, want)
		}
	}
}

func TestScannerLimits(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for _, test := range []struct {
		name, text, says string
	}{
		{"a record's text", `[{"name":"` + long + `"}]`, "a text of more than 1000 bytes"},
		{"a record's texts", `[{"gres_detail":[` + strings.Repeat(`"0123456789",`, 100) + `""]}]`, "a record of more than 1000 bytes"},
		{"a record's nodes", `[{"job_resources":{"allocated_nodes":[` + strings.Repeat("{},", 100) + `{}]}}]`, "a record of more than 1000 bytes"},
		{"the body", `[` + strings.Repeat(" ", 300_000) + `]`, "a body of more than 200000 bytes"},
		{"a key", `[{"` + long + `":1}]`, "a key of more than 256 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScanner(strings.NewReader(test.text), limits{body: 200_000, record: 1000})
			readEach(s, jobFields, func(*Job) error { return nil })
			if err := s.checkEnd(); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %v; want one that says %q", err, test.says)
			}
		})
	}
	t.Run("text that nobody wants has none", func(t *testing.T) {
		s := newScanner(strings.NewReader(`[{"not_read":"`+long+`"}]`), limits{body: 200_000, record: 1000})
		readEach(s, jobFields, func(*Job) error { return nil })
		if err := s.checkEnd(); err != nil {
			t.Error(err)
		}
	})
}

func TestScannerReadError(t *testing.T) {
	broken := io.MultiReader(strings.NewReader(`{"a":`), iotest.ErrReader(io.ErrClosedPipe))
	if err := skipAll(broken, roomy); !errors.Is(err, io.ErrClosedPipe) || errors.Is(err, ErrMalformed) {
		t.Errorf("error %v; want the reader's", err)
	}
	if err := skipAll(stuck{}, roomy); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("error %v; want io.ErrNoProgress", err)
	}
}

// stuck is a reader that returns no bytes and no error.
type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }
