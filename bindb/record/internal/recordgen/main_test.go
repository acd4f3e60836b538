package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDerivedFilesAreCurrent(t *testing.T) {
	t.Parallel()
	const dir = "../.."
	code, page, err := generate(dir)
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string][]byte{codeFile: code, pageFile: page} {
		got, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is stale; run go generate ./bindb/record", file)
		}
	}
}

func TestFaultyDeclarations(t *testing.T) {
	t.Parallel()
	const order = "//bindb:order a.bin\ntype X struct{}\n"
	for name, c := range map[string]struct{ source, want string }{
		"size":       {"//bindb:record file=a.bin size=3\ntype A struct {\n\tF uint32 `bin:\"f\"` // f\n}", "take 4 bytes, the format says 3"},
		"no size":    {"//bindb:record file=a.bin\ntype A struct{}", "has no size"},
		"no struct":  {"//bindb:record file=a.bin size=1\ntype A uint8", "no struct"},
		"no tag":     {"//bindb:record file=a.bin size=4\ntype A struct {\n\tF uint32 // f\n}", "needs one name, a tag and a comment"},
		"no comment": {"//bindb:record file=a.bin size=4\ntype A struct {\n\tF uint32 `bin:\"f\"`\n}", "needs one name, a tag and a comment"},
		"type":       {"//bindb:record file=a.bin size=4\ntype A struct {\n\tF string `bin:\"f\"` // f\n}", "unknown type"},
		"order":      {"//bindb:record file=b.bin size=4\ntype A struct {\n\tF uint32 `bin:\"f\"` // f\n}", "names a.bin, which no record declares"},
		"bits taken": {"//bindb:bits a=0..1 b=1\ntype B uint8", "out of range or taken"},
		"bits wide":  {"//bindb:bits a=8\ntype B uint8", "out of range or taken"},
		"no bits":    {"//bindb:bits a\ntype B uint8", "no position"},
		"bits enum":  {"//bindb:bits a=0..1:E\ntype B uint8", "no enumeration E"},
		"enum fit":   {"//bindb:bits a=0:E\ntype B uint8\n\n//bindb:enum\ntype E uint8\n\nconst E2 E = 2 // two", "does not fit"},
		"enum name":  {"//bindb:enum\ntype E uint8\n\nconst E2 E = 2", "comment with its name"},
	} {
		dir := t.TempDir()
		source := "package a\n\n" + order + "\n" + c.source + "\n"
		if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := generate(dir); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, c.want)
		}
	}
}

func TestSpaced(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"CIStatus": "CI Status", "ReviewBase": "Review Base", "Lifecycle": "Lifecycle", "OrdinalChain": "Ordinal Chain",
	} {
		if got := spaced(in); got != want {
			t.Errorf("spaced(%q) = %q, want %q", in, got, want)
		}
	}
}
