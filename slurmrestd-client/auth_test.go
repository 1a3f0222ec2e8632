// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
	"github.com/singularity-slurm/singularity-slurm/slurmrestd-client/slurmresttest"
)

func TestTokens(t *testing.T) {
	for _, r := range recorded {
		t.Run(r.release+"/"+r.version, func(t *testing.T) {
			s := slurmresttest.Start(t, slurmresttest.Options{
				TCP: true, Token: "good.to.ken", Versions: []string{r.version},
			})
			path := filepath.Join(t.TempDir(), "token")
			write := func(text string) {
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			cfg := s.Config()
			cfg.Token = slurmrest.TokenFile(path, "preemptd")
			c, err := slurmrest.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			slurmrest.NoPauses(c)
			if _, err := c.Nodes(t.Context()); err == nil || !strings.Contains(err.Error(), "no such file") {
				t.Errorf("Nodes without the token file: %v", err)
			}
			write("SLURM_JWT=good.to.ken\n")
			if _, err := c.Nodes(t.Context()); err != nil {
				t.Errorf("Nodes with a good token: %v", err)
			}
			write("bad.to.ken")
			_, err = c.Nodes(t.Context())
			if !errors.Is(err, slurmrest.ErrAuth) {
				t.Errorf("Nodes with a bad token: %v; want ErrAuth", err)
			}
			if _, err := c.QOS(t.Context()); !errors.Is(err, slurmrest.ErrAuth) {
				t.Errorf("QOS with a bad token: %v; want ErrAuth", err)
			}
			write("good.to.ken")
			if _, err := c.Nodes(t.Context()); err != nil {
				t.Errorf("Nodes with a good token again: %v", err)
			}
			for _, text := range []string{"", "SLURM_JWT=", "two tokens", "a\r\nX-Evil: 1", strings.Repeat("x", 100_000)} {
				write(text)
				if _, err := c.Nodes(t.Context()); err == nil || !strings.Contains(err.Error(), "authenticate: token "+path) {
					t.Errorf("%.20q: error %v; want one that names the file", text, err)
				}
			}
			if last := s.Requests()[0]; last.User != "preemptd" {
				t.Errorf("user %q; want preemptd", last.User)
			}
		})
	}
}

// TestControllerDown: 22.05 calls every failure "Unspecified error". When slurmdbd
// takes the token, the failure is slurmctld's.
func TestControllerDown(t *testing.T) {
	s := slurmresttest.Start(t, slurmresttest.Options{TCP: true, Token: "t", Versions: []string{slurmrest.V0038}})
	c := s.Client(t)
	slurmrest.NoPauses(c)
	s.Fail(slurmresttest.Fault{Path: "/nodes", Slurm: -1, Times: 9})
	_, err := c.Nodes(t.Context())
	if !errors.Is(err, slurmrest.ErrController) || errors.Is(err, slurmrest.ErrAuth) || !slurmrest.Retryable(err) {
		t.Errorf("error %v; want ErrController", err)
	}
	s.Fail(slurmresttest.Fault{Path: "/slurmdb", Drop: true, Times: 9})
	_, err = c.Nodes(t.Context())
	if errors.Is(err, slurmrest.ErrController) || errors.Is(err, slurmrest.ErrAuth) || !strings.Contains(err.Error(), "Unspecified error") {
		t.Errorf("without slurmdbd: error %v; want what was said", err)
	}
}

func TestClusterInfo(t *testing.T) {
	allVersions(t, func(t *testing.T, s *slurmresttest.Server, c *slurmrest.Client) {
		info, err := c.Cluster(t.Context())
		if err != nil || info.Name != "fake" || len(info.Controllers) != 1 || !info.Controllers[0].Up || !info.Controllers[0].Primary {
			t.Errorf("Cluster = %+v, %v; want fake with one controller, up and primary", info, err)
		}
		up, err := c.Ping(t.Context())
		if err != nil || len(up) != 1 || up[0].Host != "ctl" {
			t.Errorf("Ping = %+v, %v; want one controller on host ctl", up, err)
		}
		s.Fail(slurmresttest.Fault{Path: "/slurmdb", Slurm: 7000, Times: 9})
		if _, err := c.Cluster(t.Context()); err != nil {
			t.Errorf("Cluster without slurmdbd: %v; want success", err)
		}
	})
}

func TestAsUser(t *testing.T) {
	s := slurmresttest.Start(t, slurmresttest.Options{TCP: true, Token: "t"})
	cfg := s.Config()
	cfg.AsUser = "alice"
	c, err := slurmrest.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Nodes(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, r := range s.Requests() {
		if r.User != "alice" {
			t.Errorf("%s as %q; want alice", r.Path, r.User)
		}
	}
}

// TestForeignAnswers: an answer that is not from slurmrestd (a proxy's page, a redirect) is quoted
// in a single line of limited length, and a redirect is not followed.
func TestForeignAnswers(t *testing.T) {
	for _, test := range []struct {
		name    string
		handler http.HandlerFunc
		says    string
		most    int
	}{
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/elsewhere", http.StatusFound)
		}, "http 302", 300},
		{"page", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			fmt.Fprint(w, "<html>\n\x1b[31mBad Gateway", strings.Repeat("x", 1<<20))
		}, "<html> [31mBad Gateway", 600},
		{"silence", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
			"Internal Server Error", 200},
		{"not JSON", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") },
			"malformed answer: byte 0: 'h' where an object should be", 200},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(test.handler)
			defer server.Close()
			c, err := slurmrest.New(slurmrest.Config{Address: server.URL, Token: slurmrest.StaticToken("u", "secret")})
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.Nodes(t.Context())
			if err == nil || !strings.Contains(err.Error(), test.says) || len(err.Error()) > test.most ||
				strings.ContainsAny(err.Error(), "\n\x1b") || strings.Contains(err.Error(), "secret") {
				t.Errorf("error %q; want one that says %q", err, test.says)
			}
		})
	}
}

// TestPathsAreEscaped: 22.05 refuses a bare plus in a path.
func TestPathsAreEscaped(t *testing.T) {
	var raw string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw = r.RequestURI
		fmt.Fprint(w, "{}")
	}))
	defer server.Close()
	c, err := slurmrest.New(slurmrest.Config{Address: server.URL, Token: slurmrest.StaticToken("u", "t")})
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Cancel(t.Context(), slurmrest.ComponentOf(12, 1))
	if want := "/slurm/v0.0.45/job/12%2B1?signal=KILL"; raw != want {
		t.Errorf("path %q; want %q", raw, want)
	}
}

func TestDialHook(t *testing.T) {
	s := slurmresttest.Start(t, slurmresttest.Options{})
	var asked []string
	cfg := s.Config()
	cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		asked = append(asked, network+" "+address)
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	c, err := slurmrest.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Nodes(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if want := "unix " + strings.TrimPrefix(cfg.Address, "unix:"); len(asked) != 1 || asked[0] != want {
		t.Errorf("dialled %q; want %q once", asked, want)
	}
}
