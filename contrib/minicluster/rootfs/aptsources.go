// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package rootfs

import (
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// aptSource is a repository of apt's configuration: a single URI and suite.
type aptSource struct {
	URI        string
	Suite      string
	Components []string
	SignedBy   []string // key files; empty means apt's own trusted keys
	InlineKey  string   // an armoured key written into the configuration itself
	Trusted    bool     // apt is told not to ask for a signature
}

// parseOneLine reads a sources.list: "deb [options] URI suite component…". Lines that cannot be
// read are left out, because apt's own complaint is clearer than ours.
func parseOneLine(text string) []aptSource {
	var out []aptSource
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		kind, rest := cutField(line)
		if kind != "deb" {
			continue
		}
		var src aptSource
		if strings.HasPrefix(rest, "[") {
			options, after, ok := strings.Cut(rest[1:], "]")
			if !ok {
				continue
			}
			rest = strings.TrimSpace(after)
			src.applyOptions(options)
		}
		f := strings.Fields(rest)
		if len(f) < 3 { // a flat repository has no components
			continue
		}
		src.URI, src.Suite, src.Components = f[0], f[1], f[2:]
		out = append(out, src)
	}
	return out
}

// applyOptions takes the words between brackets: "arch=amd64 signed-by=/a,/b".
func (s *aptSource) applyOptions(words string) {
	for _, w := range strings.Fields(words) {
		name, value, _ := strings.Cut(w, "=")
		switch strings.ToLower(strings.TrimRight(name, "+-")) {
		case "signed-by":
			s.setSignedBy(strings.ReplaceAll(value, ",", " "))
		case "trusted":
			s.Trusted = isYes(value)
		}
	}
}

// setSignedBy takes key files, or a key itself. A fingerprint without a file
// only narrows apt's trusted keys and is left out.
func (s *aptSource) setSignedBy(value string) {
	if strings.Contains(value, "-----BEGIN") {
		s.InlineKey = value
		return
	}
	for _, f := range strings.Fields(value) {
		if strings.HasPrefix(f, "/") {
			s.SignedBy = append(s.SignedBy, f)
		}
	}
}

// parseDeb822 reads a *.sources file: stanzas of fields, a field going on in
// lines that begin with a blank.
func parseDeb822(text string) []aptSource {
	var out []aptSource
	for _, st := range parseStanzas(text) {
		if v, set := st["enabled"]; set && isNo(v) {
			continue
		}
		if !slices.Contains(strings.Fields(st["types"]), "deb") {
			continue
		}
		var src aptSource
		src.setSignedBy(st["signed-by"])
		src.Trusted = isYes(st["trusted"])
		src.Components = strings.Fields(st["components"])
		for _, uri := range strings.Fields(st["uris"]) {
			for _, suite := range strings.Fields(st["suites"]) {
				src.URI, src.Suite = uri, suite
				out = append(out, src)
			}
		}
	}
	return out
}

// parseStanzas splits deb822 text into maps from lower-case field name to value. In a field that
// goes on, each line is kept apart, and a lone dot is an empty line.
func parseStanzas(text string) []map[string]string {
	var out []map[string]string
	cur, last := map[string]string{}, ""
	flush := func() {
		if len(cur) > 0 {
			out = append(out, cur)
		}
		cur, last = map[string]string{}, ""
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		switch {
		case line == "":
			flush()
		case line[0] == '#': // also amid a field that goes on
		case line[0] == ' ' || line[0] == '\t':
			if last != "" {
				more := strings.TrimSpace(line)
				if more == "." {
					more = ""
				}
				cur[last] += "\n" + more
			}
		default:
			name, value, ok := strings.Cut(line, ":")
			if !ok {
				last = ""
				continue
			}
			last = strings.ToLower(strings.TrimSpace(name))
			cur[last] = strings.TrimSpace(value)
		}
	}
	flush()
	return out
}

// pickSource finds the archive that the host's own Debian release comes from
// among all of apt's sources, or reports false. release is its codename. A third
// party's list may name the same suite and "main", so evidence is needed: the release's updates at
// the same place, Debian's own keys, a path that ends in "debian"; another's key counts against.
func pickSource(all []aptSource, release string) (aptSource, bool) {
	best, bestScore := aptSource{}, 0
	for _, s := range all {
		if !slices.Contains(s.Components, "main") || !isReleaseSuite(s.Suite, release) || !usableURI(s.URI) {
			continue
		}
		if n := scoreSource(s, all); n > bestScore {
			best, bestScore = s, n
		}
	}
	return best, bestScore > 0
}

func scoreSource(s aptSource, all []aptSource) int {
	n := 0
	if slices.ContainsFunc(all, func(o aptSource) bool {
		return sameURI(o.URI, s.URI) && o.Suite == s.Suite+"-updates"
	}) {
		n += 2
	}
	if slices.ContainsFunc(s.SignedBy, isDebianKey) {
		n += 4
	} else if len(s.SignedBy) > 0 || s.InlineKey != "" {
		n--
	}
	if strings.HasSuffix(strings.TrimRight(s.URI, "/"), "/debian") {
		n++
	}
	return n
}

func isDebianKey(path string) bool { return strings.Contains(path, "/debian-archive-") }

// isReleaseSuite reports whether suite is the release itself, by its codename or by a name such as
// "stable", which moves from release to release.
func isReleaseSuite(suite, release string) bool {
	if suite == "" || strings.Contains(suite, "/") {
		return false
	}
	return suite == release || slices.Contains([]string{"stable", "oldstable", "testing", "unstable", "sid"}, suite)
}

// usableURI refuses archives that cannot serve another suite from here: a CD, a folder.
func usableURI(uri string) bool {
	if strings.ContainsFunc(uri, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return false
	}
	u, err := url.Parse(uri)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

func sameURI(a, b string) bool { return strings.TrimRight(a, "/") == strings.TrimRight(b, "/") }

func cutField(s string) (first, rest string) {
	s = strings.TrimSpace(s)
	i := strings.IndexAny(s, " \t")
	if i < 0 {
		return s, ""
	}
	return s[:i], strings.TrimSpace(s[i:])
}

// isYes and isNo know apt's spellings; both are false for other words.
func isYes(s string) bool {
	return slices.Contains([]string{"yes", "true", "with", "on", "enable", "1"}, strings.ToLower(s))
}

func isNo(s string) bool {
	return slices.Contains([]string{"no", "false", "without", "off", "disable", "0"}, strings.ToLower(s))
}
