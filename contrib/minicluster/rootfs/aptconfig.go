// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package rootfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// debianKeyring holds the keys of every Debian release; the release's own key
// file, which a host's configuration may name, has only its own.
const debianKeyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// ErrNoMirror says that the host's apt configuration names no Debian archive, as
// on a host that is not Debian.
var ErrNoMirror = errors.New("no Debian mirror found in the host's apt configuration: name one with --mirror")

// source is the place of packages: an archive, and the settings with which apt reaches the archive.
// A source may hold a password and goes into files that only root reads.
type source struct {
	aptSource
	options []string // lines of apt.conf
}

// findSource takes the archive from mirror or, without mirror, from the host's apt configuration,
// and the access settings (proxies, certificates) from the host's apt configuration in either case.
func findSource(ctx context.Context, mirror string) (source, error) {
	dump, err := exec.CommandContext(ctx, "apt-config", "dump").Output()
	if errors.Is(err, exec.ErrNotFound) {
		return source{}, &MissingToolError{Tool: "apt-config", Package: "apt"}
	}
	if err != nil {
		return source{}, fmt.Errorf("apt-config dump: %w", err)
	}
	return chooseSource(os.DirFS("/"), mirror, parseDump(string(dump)))
}

// chooseSource is findSource with the files of root, the host's root folder.
func chooseSource(root fs.FS, mirror string, dump []setting) (source, error) {
	src := source{options: accessOptions(dump)}
	for _, name := range []string{"auth.conf", "auth.conf.d"} {
		if _, err := fs.Stat(root, "etc/apt/"+name); err == nil {
			key := map[string]string{"auth.conf": "netrc", "auth.conf.d": "netrcparts"}[name]
			src.options = append(src.options, fmt.Sprintf(`Dir::Etc::%s "/etc/apt/%s";`, key, name))
		}
	}
	all := readSources(root)
	if mirror != "" {
		if !usableURI(mirror) {
			return source{}, fmt.Errorf("mirror %q: want the URI of a Debian archive, like http://deb.example.org/debian", redactPassword(mirror))
		}
		src.aptSource = aptSource{URI: mirror}
		// The same archive may be configured with a key of its own.
		if i := slices.IndexFunc(all, func(s aptSource) bool { return sameURI(s.URI, mirror) }); i >= 0 {
			src.SignedBy, src.InlineKey, src.Trusted = all[i].SignedBy, all[i].InlineKey, all[i].Trusted
		}
	} else {
		found, ok := pickSource(all, readRelease(root))
		if !ok {
			return source{}, ErrNoMirror
		}
		src.aptSource = found
	}
	if _, err := fs.Stat(root, debianKeyring[1:]); err == nil && !slices.Contains(src.SignedBy, debianKeyring) {
		src.SignedBy = append(slices.Clone(src.SignedBy), debianKeyring)
	}
	return src, nil
}

// sourcesList is the line of a sources.list for a suite; kind is "deb" or "deb-src", keyFile is the
// file with InlineKey.
func (s source) sourcesList(kind, suite, keyFile string) string {
	keys := slices.Clone(s.SignedBy)
	if s.InlineKey != "" {
		keys = append(keys, keyFile)
	}
	var options []string
	if len(keys) > 0 {
		options = append(options, "signed-by="+strings.Join(keys, ","))
	}
	if s.Trusted {
		options = append(options, "trusted=yes")
	}
	if len(options) == 0 {
		return fmt.Sprintf("%s %s %s main\n", kind, s.URI, suite)
	}
	return fmt.Sprintf("%s [%s] %s %s main\n", kind, strings.Join(options, " "), s.URI, suite)
}

// readSources reads all of apt's lists below root. A file that is missing or may not be read counts
// as empty.
func readSources(root fs.FS) []aptSource {
	read := func(name string) string {
		b, _ := fs.ReadFile(root, name)
		return string(b)
	}
	all := parseOneLine(read("etc/apt/sources.list"))
	entries, _ := fs.ReadDir(root, "etc/apt/sources.list.d")
	for _, e := range entries {
		name := "etc/apt/sources.list.d/" + e.Name()
		switch filepath.Ext(name) {
		case ".list":
			all = append(all, parseOneLine(read(name))...)
		case ".sources":
			all = append(all, parseDeb822(read(name))...)
		}
	}
	for i, s := range all {
		if file, ok := strings.CutPrefix(s.URI, "mirror+file:"); ok {
			all[i].URI = firstMirror(read(strings.TrimLeft(file, "/")))
		}
	}
	return all
}

// firstMirror takes the first archive of a mirror list, in which Debian's cloud images name their
// archive.
func firstMirror(list string) string {
	for line := range strings.Lines(list) {
		line, _, _ = strings.Cut(line, "#")
		if uri, _ := cutField(line); uri != "" {
			return uri
		}
	}
	return ""
}

// readRelease is the codename of the Debian release that root holds.
func readRelease(root fs.FS) string {
	b, err := fs.ReadFile(root, "etc/os-release")
	if err != nil {
		b, _ = fs.ReadFile(root, "usr/lib/os-release")
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "VERSION_CODENAME="); ok {
			return strings.Trim(v, `"'`)
		}
	}
	return ""
}

// setting is a line of "apt-config dump". Names of a list's entries end in "::".
type setting struct{ name, value string }

// parseDump reads lines of the form: name "value";
func parseDump(text string) []setting {
	var out []setting
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(strings.TrimSpace(line), ` "`)
		value, closed := strings.CutSuffix(rest, `";`)
		if ok && closed && name != "" && !strings.ContainsAny(name, "\" \t") {
			out = append(out, setting{name, value})
		}
	}
	return out
}

// accessSettings are the settings, by prefix, that affect the access to an archive and the check of
// its dates.
var accessSettings = []string{
	"Acquire::http::", "Acquire::https::", "Acquire::Retries", "Acquire::ForceIPv4", "Acquire::ForceIPv6",
	"Acquire::Check-Valid-Until", "Acquire::Check-Date", "Acquire::Max-FutureTime",
}

// accessOptions turns the settings that a build must share with the host into
// lines of apt.conf.
func accessOptions(dump []setting) []string {
	var out []string
	for _, s := range dump {
		if s.value == "" || strings.Contains(s.value, `"`) {
			continue
		}
		if slices.ContainsFunc(accessSettings, func(p string) bool {
			return len(s.name) >= len(p) && strings.EqualFold(s.name[:len(p)], p)
		}) {
			out = append(out, fmt.Sprintf("%s \"%s\";", s.name, s.value))
		}
	}
	return out
}

// redactPassword hides the password of a URI that is about to be shown.
func redactPassword(uri string) string {
	if !strings.Contains(uri, "@") {
		return uri
	}
	u, err := url.Parse(uri)
	if err != nil {
		return "…"
	}
	return u.Redacted()
}
