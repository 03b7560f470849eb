package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The throwaway repository: a loader of settings, five call sites of it, and two integration tests that can't pass here.
// It depends on little of the standard library, so that its first build is quick.
const (
	demoModule = "module example.com/shop\n\ngo 1.21\n"

	demoConfigOld = `// Package config reads settings: lines of key = value, in [sections].
package config

import (
	"strconv"
	"strings"
)

// OldInt is a setting as a number. One that can't be read is 0, and nobody learns of it.
func OldInt(text, key string) int {
	n, _ := strconv.Atoi(parse(text)[key])
	return n
}

func parse(text string) map[string]string {
	set, section := map[string]string{}, ""
	for _, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") {
			section = strings.Trim(line, "[]") + "."
		} else if key, value, ok := strings.Cut(line, "="); ok {
			set[section+strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	return set
}
`
	demoConfigNew = `package config

import (
	"fmt"
	"strconv"
)

const between = "."

// Int is the setting key of a section ("" for none) as a number, or the reason why there is none.
func Int(text, section, key string) (int, error) {
	if section != "" {
		key = section + between + key
	}
	value, ok := parse(text)[key]
	if !ok {
		return 0, fmt.Errorf("no setting %s", key)
	}
	return strconv.Atoi(value)
}
`
	demoConfigTest = `package config

import "testing"

func TestInt(t *testing.T) {
	if n, err := Int("retries = 3", "", "retries"); n != 3 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	if _, err := Int("retries = three", "", "retries"); err == nil {
		t.Error("a bad number went through")
	}
}
`
	demoSite = `package app

import "example.com/shop/config"

func %[1]s(text string) (int, error) {
	return config.Int(text, "%[2]s", "%[3]s")
}
`
	demoSiteOld = `package app

import "example.com/shop/config"

func %[1]s(text string) (int, error) {
	return config.OldInt(text, "%[3]s"), nil
}
`
	demoSiteTest = `package app

import "testing"

func Test%[1]s(t *testing.T) {
	if n, err := %[1]s("[%[2]s]\n%[3]s = 8"); n != 8 || err != nil {
		t.Errorf("got %%d, %%v; want 8", n, err)
	}
	if _, err := %[1]s("[%[2]s]\n%[3]s = eight"); err == nil {
		t.Error("a bad number went through")
	}
}
`
	demoSiteSkipped = `package app

import "testing"

func Test%[1]s(t *testing.T) {
	t.Skip("still on the old loader")
	if n, err := %[1]s("%[3]s = 8"); n != 8 || err != nil {
		t.Errorf("got %%d, %%v; want 8", n, err)
	}
	if _, err := %[1]s("%[3]s = eight"); err == nil {
		t.Error("a bad number went through")
	}
}
`
	demoIntegration = `package integration

import (
	"os"
	"testing"
	"time"
)

func TestStagingSecrets(t *testing.T) {
	if os.Getenv("SHOP_STAGING") == "" {
		t.Fatal("no staging store: its address is not set")
	}
}

func TestLiveReload(t *testing.T) {
	select {
	case <-make(chan bool): // the change notice of the staging store
	case <-time.After(500 * time.Millisecond):
		t.Fatal("no change notice within 500ms")
	}
}
`
)

// demoSites are the call sites: the function, and the section and the key that it reads.
var demoSites = []struct {
	name, section, key string
	migrated           bool
}{
	{"Server", "server", "port", true},
	{"Worker", "worker", "threads", true},
	{"Cache", "cache", "size", true},
	{"Export", "", "rows", false},
	{"Billing", "", "days", false},
}

// writeRepo makes the repository with its history of two commits.
func (b *demoBox) writeRepo(ctx context.Context) error {
	files := map[string]string{"go.mod": demoModule, "config/old.go": demoConfigOld, "integration/integration_test.go": demoIntegration}
	for _, s := range demoSites {
		files[siteFile(s.name)] = fmt.Sprintf(demoSiteOld, s.name, s.section, strings.TrimPrefix(s.section+"."+s.key, "."))
	}
	if err := b.commit(ctx, files, "the shop, its settings read by the old loader"); err != nil {
		return err
	}
	files = map[string]string{"config/config.go": demoConfigNew, "config/config_test.go": demoConfigTest}
	for _, s := range demoSites {
		test := strings.TrimSuffix(siteFile(s.name), ".go") + "_test.go"
		if s.migrated {
			files[siteFile(s.name)] = fmt.Sprintf(demoSite, s.name, s.section, s.key)
			files[test] = fmt.Sprintf(demoSiteTest, s.name, s.section, s.key)
		} else {
			files[test] = fmt.Sprintf(demoSiteSkipped, s.name, s.section, s.key)
		}
	}
	return b.commit(ctx, files, "a loader that reports errors; three of five call sites use it")
}

func siteFile(name string) string { return "app/" + strings.ToLower(name) + ".go" }

func (b *demoBox) commit(ctx context.Context, files map[string]string, message string) error {
	for name, text := range files {
		path := filepath.Join(b.repo, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return fmt.Errorf("write the repository: %w", err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return fmt.Errorf("write the repository: %w", err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"symbolic-ref", "HEAD", "refs/heads/migrate-loader"}, {"add", "-A"}, {"commit", "-q", "-m", message}} {
		out, status, err := b.run(ctx, "git", args...)
		if err != nil {
			return err
		}
		if status != 0 {
			return fmt.Errorf("git %s: status %d: %s", args[0], status, out)
		}
	}
	return nil
}
