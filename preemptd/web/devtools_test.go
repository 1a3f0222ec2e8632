// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// browser is a headless Chromium with a single page, driven over the pipe of its DevTools
// protocol: a JSON object and a zero byte, in both directions.
type browser struct {
	*testing.T
	in      io.Writer
	session string // of the page

	mu      sync.Mutex
	last    int
	waiting map[int]chan answer
	errors  []string // that the page reported
}

type answer struct {
	ID     int
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  struct{ Message string }
}

// aWhile is for machines on which everything is slow.
const aWhile = 2 * time.Minute

const nobody = 65534

// newBrowser starts a browser, as the user "nobody" if the test is root: Chromium's sandbox refuses root.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("the page is tested in Chromium, which is not here: `make deps` installs it")
	}
	home, err := os.MkdirTemp("", "chromium-") // t.TempDir is root's
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	cmd := exec.Command(program, "--headless", "--remote-debugging-pipe", "--disable-gpu", "--log-level=3", "--no-first-run", "--disable-dev-shm-usage",
		"--hide-scrollbars", "--disable-background-networking", "--disable-component-update", "--user-data-dir="+filepath.Join(home, "data"), "about:blank")
	cmd.Env = append(os.Environ(), "HOME="+home, "DBUS_SESSION_BUS_ADDRESS=/dev/null")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
		if err := os.Chown(home, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	theirs, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{theirs, ours} // 3 and 4
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	ours.Close()
	b := &browser{T: t, in: in, waiting: map[int]chan answer{}}
	ended := make(chan struct{})
	go func() { defer close(ended); b.readMessages(out) }()
	t.Cleanup(func() {
		in.Close() // the browser ends with its pipe
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
		}
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
		if t.Failed() {
			t.Logf("chromium said:\n%s", said.Bytes())
		}
	})
	var target struct{ TargetID string }
	b.callMethod("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.callMethod("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page.enable", "Runtime.enable", "Log.enable"} {
		b.callMethod(domain, nil, nil)
	}
	return b
}

func (b *browser) readMessages(out io.Reader) {
	for r := bufio.NewReader(out); ; {
		raw, err := r.ReadBytes(0)
		if err != nil {
			b.mu.Lock()
			defer b.mu.Unlock()
			for _, w := range b.waiting {
				close(w)
			}
			b.waiting = nil
			return
		}
		var a answer
		if json.Unmarshal(raw[:len(raw)-1], &a) != nil {
			continue
		}
		b.mu.Lock()
		switch {
		case a.ID != 0:
			if w := b.waiting[a.ID]; w != nil {
				w <- a
				delete(b.waiting, a.ID)
			}
		case a.Method == "Runtime.exceptionThrown", a.Method == "Log.entryAdded" && bytes.Contains(a.Params, []byte(`"level":"error"`)):
			b.errors = append(b.errors, string(a.Params))
		}
		b.mu.Unlock()
	}
}

// callMethod carries out a command of the protocol.
func (b *browser) callMethod(method string, params map[string]any, result any) {
	b.Helper()
	if params == nil {
		params = map[string]any{}
	}
	wait := make(chan answer, 1)
	b.mu.Lock()
	b.last++
	id := b.last
	if b.waiting != nil {
		b.waiting[id] = wait
	}
	gone := b.waiting == nil
	b.mu.Unlock()
	raw, err := json.Marshal(map[string]any{"id": id, "method": method, "params": params, "sessionId": b.session})
	if b.session == "" {
		raw, err = json.Marshal(map[string]any{"id": id, "method": method, "params": params})
	}
	if err != nil {
		b.Fatal(err)
	}
	if _, err := b.in.Write(append(raw, 0)); err != nil || gone {
		b.Fatalf("%s: chromium has ended: %v", method, err)
	}
	select {
	case a, ok := <-wait:
		if !ok || a.Error.Message != "" {
			b.Fatalf("%s: %v %s", method, ok, a.Error.Message)
		}
		if result != nil {
			if err := json.Unmarshal(a.Result, result); err != nil {
				b.Fatal(err)
			}
		}
	case <-time.After(aWhile):
		b.Fatalf("%s: no answer", method)
	}
}

// evaluate evaluates an expression in the page; a promise is waited for.
func (b *browser) evaluate(expression string, into any) {
	b.Helper()
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct{ Exception struct{ Description string } }
	}
	b.callMethod("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}, &r)
	if r.ExceptionDetails != nil {
		b.Fatalf("%s: %s", expression, r.ExceptionDetails.Exception.Description)
	}
	if into != nil {
		if err := json.Unmarshal(r.Result.Value, into); err != nil {
			b.Fatalf("%s: %v: %s", expression, err, r.Result.Value)
		}
	}
}

// waitFor waits for an expression of the page to become true.
func (b *browser) waitFor(expression string) {
	b.Helper()
	var came bool
	b.evaluate(fmt.Sprintf(`new Promise((done) => {
		const end = Date.now() + %d;
		(function look() { if (%s) done(true); else if (Date.now() > end) done(false); else setTimeout(look, 30); })();
	})`, (aWhile-30*time.Second).Milliseconds(), expression), &came)
	if !came {
		var text string
		b.evaluate("document.body.innerText", &text)
		b.Fatalf("never came: %s\nthe page:\n%s\nits errors: %q", expression, text, b.reportedErrors())
	}
}

// textOf is the text of an element, as a person reads it.
func (b *browser) textOf(selector string) string {
	b.Helper()
	var s string
	b.evaluate(fmt.Sprintf("document.querySelector(%q).innerText", selector), &s)
	return s
}

// reportedErrors are the errors that the page reported.
func (b *browser) reportedErrors() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.errors...)
}

// dropReports drops the errors that the page has reported.
func (b *browser) dropReports() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.errors = nil
}

// pressKey presses a key.
func (b *browser) pressKey(name string) {
	b.Helper()
	for _, kind := range []string{"rawKeyDown", "keyUp"} {
		b.callMethod("Input.dispatchKeyEvent", map[string]any{"type": kind, "key": name, "code": name}, nil)
	}
}

// openPage loads a page of some size.
func (b *browser) openPage(url string, width, height int) {
	b.Helper()
	b.setSize(width, height)
	b.callMethod("Page.navigate", map[string]any{"url": url}, nil)
	b.waitFor(`document.body?.dataset.ready === "yes"`)
}

func (b *browser) setSize(width, height int) {
	b.Helper()
	b.callMethod("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
}

// setTheme sets the system's theme, for the page.
func (b *browser) setTheme(name string) {
	b.Helper()
	b.callMethod("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": name}}}, nil)
}

// writePicture writes a picture of the whole page.
func (b *browser) writePicture(file string) {
	b.Helper()
	var r struct{ Data string }
	b.callMethod("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true}, &r)
	raw, err := base64.StdEncoding.DecodeString(r.Data)
	if err == nil {
		err = os.WriteFile(file, raw, 0o644)
	}
	if err != nil {
		b.Fatal(err)
	}
}
