// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package passwd

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func makeEtc(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range map[string]string{
		"passwd": "root:x:0:0:root:/root:/bin/bash\nbroken\nslurm:x:64030:64030::/:/sbin/nologin\nbad:x:many:1::/:\nalice:x:1001:1001:A:/shared/home/alice:/bin/bash\nnobody:x:65534:65534::/:\n",
		"group":  "proj:x:2000:bob,alice\nalice:x:1001:\nmalice:x:3000:malice\nodd:x:y:alice\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFind(t *testing.T) {
	got, err := Find(makeEtc(t), "alice")
	want := User{Name: "alice", Home: "/shared/home/alice", Shell: "/bin/bash", UID: 1001, GID: 1001, Groups: []uint32{2000}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	if _, err := Find(makeEtc(t), "eve"); err == nil || err.Error() != `no user "eve" here (users: root alice)` {
		t.Errorf("Find of an unknown user: %v", err)
	}
	if u, err := Find(makeEtc(t), "slurm"); err != nil || u.UID != 64030 {
		t.Errorf("Find of a system user = %+v, %v", u, err)
	}
}

func TestPeople(t *testing.T) {
	people, err := People(makeEtc(t))
	if err != nil || len(people) != 1 || people[0].Name != "alice" {
		t.Errorf("People = %+v, %v; want alice", people, err)
	}
}
