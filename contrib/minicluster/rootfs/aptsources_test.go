// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package rootfs

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
)

const osRelease = "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nVERSION_CODENAME=bookworm\nID=debian\n"

func TestFindMirror(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string // below /etc/apt, or absolute
		want  string
	}{
		{"one line", map[string]string{
			"sources.list": "deb http://deb.example.org/debian bookworm main\ndeb http://deb.example.org/debian-security bookworm-security main\n",
		}, "http://deb.example.org/debian"},
		{"deb822", map[string]string{
			"sources.list.d/debian.sources": `Types: deb deb-src
# a note
URIs: http://mirror.example.org/pub/archive/
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.example.org/security
Suites: bookworm-security
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
`}, "http://mirror.example.org/pub/archive/"},
		{"third parties first, same suite and main", map[string]string{
			"sources.list.d/a.list": "deb [signed-by=/usr/share/keyrings/vpn.gpg] https://pkgs.example.org/stable/debian bookworm main\n",
			"sources.list.d/b.list": "deb https://apt.example.com bookworm main\ndeb https://dl.example.com/code stable main\n",
			"sources.list.d/c.list": "deb http://deb.example.org/debian/ bookworm main\n",
		}, "http://deb.example.org/debian/"},
		{"third parties only", map[string]string{
			"sources.list.d/a.list": "deb [signed-by=/usr/share/keyrings/vpn.gpg] https://pkgs.example.org/stable/debian bookworm main\n",
			"sources.list.d/b.list": "deb https://apt.example.com bookworm main\n",
			"sources.list.d/n.list": "deb https://deb.example.com/node nodistro main\n",
		}, ""},
		{"own mirror with own key", map[string]string{
			"sources.list": "deb [signed-by=/etc/apt/keyrings/site.asc] https://apt.example.org/deb bookworm main\n" +
				"deb [signed-by=/etc/apt/keyrings/site.asc] https://apt.example.org/deb/ bookworm-updates main\n",
		}, "https://apt.example.org/deb"},
		{"symbolic name", map[string]string{
			"sources.list": "deb http://deb.example.org/debian oldstable main\n",
		}, "http://deb.example.org/debian"},
		{"another release", map[string]string{
			"sources.list": "deb http://deb.example.org/debian bullseye main\n",
		}, ""},
		{"security only", map[string]string{
			"sources.list": "deb http://deb.example.org/debian-security bookworm-security main\n",
		}, ""},
		{"commented, sources only, disabled", map[string]string{
			"sources.list":             "# deb http://deb.example.org/debian bookworm main\ndeb-src http://deb.example.org/debian bookworm main\n",
			"sources.list.d/d.sources": "Enabled: no\nTypes: deb\nURIs: http://deb.example.org/debian\nSuites: bookworm\nComponents: main\n",
			"sources.list.d/d.bak":     "deb http://deb.example.org/debian bookworm main\n",
		}, ""},
		{"CD first", map[string]string{
			"sources.list": "deb cdrom:[Debian GNU/Linux 12]/ bookworm main\ndeb http://deb.example.org/debian bookworm main\n",
		}, "http://deb.example.org/debian"},
		{"mirror list of a cloud image", map[string]string{
			"sources.list.d/debian.sources": "Types: deb\nURIs: mirror+file:///etc/apt/mirrors/debian.list\nSuites: bookworm bookworm-updates\nComponents: main\n",
			"mirrors/debian.list":           "# first is best\nhttps://deb.example.org/debian\tpriority:1\nhttps://ftp.example.org/debian\n",
		}, "https://deb.example.org/debian"},
		{"nothing", nil, ""},
		{"broken", map[string]string{
			"sources.list":             "deb [arch=amd64 http://deb.example.org/debian bookworm main\ndeb\ndeb x\n",
			"sources.list.d/x.sources": "no colon here\n going on\n: empty\nTypes\n",
		}, ""},
	} {
		root := fstest.MapFS{"etc/os-release": {Data: []byte(osRelease)}}
		for name, text := range c.files {
			root["etc/apt/"+name] = &fstest.MapFile{Data: []byte(text)}
		}
		src, err := chooseSource(root, "", nil)
		if c.want == "" {
			if !errors.Is(err, ErrNoMirror) {
				t.Errorf("%s: found %q, %v; want none", c.name, src.URI, err)
			}
			continue
		}
		if err != nil || src.URI != c.want {
			t.Errorf("%s: %q, %v; want %q", c.name, src.URI, err, c.want)
		}
	}
}

func TestSourcesList(t *testing.T) {
	keyring := fstest.MapFS{"usr/share/keyrings/debian-archive-keyring.gpg": {}}
	with := func(list string) fstest.MapFS {
		return fstest.MapFS{
			"etc/os-release": {Data: []byte(osRelease)}, "etc/apt/sources.list": {Data: []byte(list)},
			"usr/share/keyrings/debian-archive-keyring.gpg": {},
		}
	}
	deb822 := func(text string) fstest.MapFS {
		return fstest.MapFS{"etc/os-release": {Data: []byte(osRelease)}, "etc/apt/sources.list.d/d.sources": {Data: []byte(text)}}
	}
	for _, c := range []struct {
		name   string
		root   fstest.MapFS
		mirror string
		want   string
	}{
		{"named mirror", fstest.MapFS{}, "http://deb.example.org/debian", "deb http://deb.example.org/debian forky main\n"},
		{"Debian's keyring", keyring, "http://deb.example.org/debian",
			"deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.example.org/debian forky main\n"},
		{"the release's key is not the suite's",
			with("deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-bookworm-stable.gpg] http://deb.example.org/debian bookworm main"), "",
			"deb [signed-by=/usr/share/keyrings/debian-archive-bookworm-stable.gpg,/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.example.org/debian forky main\n"},
		{"named mirror that is configured", with("deb [ trusted=yes ] http://apt.example.org/d bookworm main"), "http://apt.example.org/d/",
			"deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg trusted=yes] http://apt.example.org/d/ forky main\n"},
		{"inline key", deb822("Types: deb\nURIs: http://apt.example.org/debian\nSuites: bookworm bookworm-updates\nComponents: main\n" +
			"Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n -----END PGP PUBLIC KEY BLOCK-----\n"), "",
			"deb [signed-by=/build/mirror.asc] http://apt.example.org/debian forky main\n"},
	} {
		src, err := chooseSource(c.root, c.mirror, nil)
		if err != nil {
			t.Errorf("sourceOf (%s): %v", c.name, err)
			continue
		}
		if got := src.sourcesList("deb", "forky", "/build/mirror.asc"); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestBadMirror(t *testing.T) {
	for mirror, want := range map[string]string{
		"ftp.debian.org/debian": `mirror "ftp.debian.org/debian": want the URI of a Debian archive, like http://deb.example.org/debian`,
		"file:///srv/debian":    `mirror "file:///srv/debian": want the URI of a Debian archive, like http://deb.example.org/debian`,
		"ftp://a:secret@x/d":    `mirror "ftp://a:xxxxx@x/d": want the URI of a Debian archive, like http://deb.example.org/debian`,
		"http://x/ main\ndeb y": `mirror "http://x/ main\ndeb y": want the URI of a Debian archive, like http://deb.example.org/debian`,
		"http://x/debian sid":   `mirror "http://x/debian sid": want the URI of a Debian archive, like http://deb.example.org/debian`,
	} {
		_, err := chooseSource(fstest.MapFS{}, mirror, nil)
		if errText(err) != want {
			t.Errorf("%q: %v\nwant %s", mirror, err, want)
		}
	}
}

func TestTravelOptions(t *testing.T) {
	dump := `APT "";
Acquire "";
Acquire::Check-Valid-Until "false";
Acquire::http "";
Acquire::http::Proxy "http://proxy.example.org:3128";
Acquire::http::Proxy::deb.example.org "DIRECT";
Acquire::HTTPS::CaInfo "/etc/ssl/site.pem";
Acquire::IndexTargets::deb::Packages::MetaKey "$(COMPONENT)/binary";
APT::Update::Post-Invoke:: "rm -f /var/cache/apt/*.bin || true";
Acquire::http::User-Agent "say "hi"";
not a setting
`
	want := []string{
		`Acquire::Check-Valid-Until "false";`,
		`Acquire::http::Proxy "http://proxy.example.org:3128";`,
		`Acquire::http::Proxy::deb.example.org "DIRECT";`,
		`Acquire::HTTPS::CaInfo "/etc/ssl/site.pem";`,
	}
	if got := accessOptions(parseDump(dump)); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestAuthFilesTravel(t *testing.T) {
	src, err := chooseSource(fstest.MapFS{"etc/apt/auth.conf.d/site.conf": {}}, "https://apt.example.org/debian", nil)
	if err != nil || !reflect.DeepEqual(src.options, []string{`Dir::Etc::netrcparts "/etc/apt/auth.conf.d";`}) {
		t.Errorf("options of the source = %q, %v; want the folder of auth files", src.options, err)
	}
}

// With any content of the files, mmdebstrap gets one "deb" line and settings of one line each.
func FuzzSources(f *testing.F) {
	f.Add("deb [signed-by=/a,/b trusted=yes] http://deb.example.org/debian bookworm main # x\n",
		"Types: deb\nURIs: http://a http://b\nSuites: bookworm\n bookworm-updates\nComponents: main\nSigned-By:\n -----BEGIN\n .\n x\n",
		"Acquire::http::Proxy \"http://p\";\n")
	f.Add("deb [", "\n \n:\n#\n", "a \"\";\n\" \"\";")
	f.Fuzz(func(t *testing.T, oneLine, deb822, dump string) {
		root := fstest.MapFS{
			"etc/os-release":                     {Data: []byte(osRelease)},
			"etc/apt/sources.list":               {Data: []byte(oneLine)},
			"etc/apt/sources.list.d/x.sources":   {Data: []byte(deb822)},
			"etc/apt/sources.list.d/debian.list": {Data: []byte(oneLine)},
		}
		src, err := chooseSource(root, "", parseDump(dump))
		if err != nil {
			return
		}
		list := src.sourcesList("deb", "forky", "/k")
		if !strings.HasPrefix(list, "deb ") || strings.Count(list, "\n") != 1 || !strings.HasSuffix(list, " forky main\n") {
			t.Fatalf("sourcesList = %q, want one deb line", list)
		}
		for _, o := range src.options {
			if strings.ContainsAny(o, "\n\r") || !strings.HasSuffix(o, `";`) || strings.Count(o, `"`) != 2 {
				t.Fatalf("apt.conf line %q", o)
			}
		}
	})
}
