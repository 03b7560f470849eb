package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"perdure/server"
)

// settings are what the configuration file may say, in TOML. Each name that isn't here is refused.
type settings struct {
	server.Settings
	On  string `toml:"on"`  // the host that connect means where none is named
	SSH string `toml:"ssh"` // the ssh to run, with its arguments
}

// configured is the configuration file in force, and which names it sets.
type configured struct {
	settings
	path string
	set  map[string]bool
}

// maxConfig bounds the file.
const maxConfig = 1 << 20

// readSettings reads the configuration: path, else PERDURE_CONFIG, else config.toml of the configuration folder (XDG base
// directories), which may be missing.
func readSettings(path string) (configured, error) {
	c := configured{settings: settings{Settings: server.DefaultSettings()}, set: map[string]bool{}}
	named := true
	if path == "" {
		path = os.Getenv("PERDURE_CONFIG")
	}
	if path == "" {
		named = false
		path = defaultConfig()
	}
	if path == "" {
		return c, nil
	}
	var err error
	if c.path, err = filepath.Abs(path); err != nil {
		return c, fmt.Errorf("find the configuration: %w", err)
	}
	info, err := os.Stat(c.path)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return c, nil
	}
	if err == nil && info.Size() > maxConfig {
		err = fmt.Errorf("%s is larger than %d bytes", c.path, maxConfig)
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(c.path)
	}
	if err != nil {
		return c, fmt.Errorf("read the configuration: %w", err)
	}
	if err := c.decode(data); err != nil {
		return c, &problem{status: statusUsage, code: "config", err: fmt.Errorf("the configuration %s: %w", c.path, err), hint: "`perdure config` shows the names and what is in force"}
	}
	return c, nil
}

func defaultConfig() string {
	dir := os.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "perdure", "config.toml")
}

// decode reads a file's text over the defaults, strictly.
func (c *configured) decode(data []byte) error {
	dec := toml.NewDecoder(bytes.NewReader(data)).DisallowUnknownFields()
	if err := dec.Decode(&c.settings); err != nil {
		var unknown *toml.StrictMissingError
		if errors.As(err, &unknown) && len(unknown.Errors) > 0 {
			row, _ := unknown.Errors[0].Position()
			return fmt.Errorf("line %d: unknown name %s", row, strings.Join(unknown.Errors[0].Key(), "."))
		}
		var bad *toml.DecodeError
		if errors.As(err, &bad) {
			row, column := bad.Position()
			return fmt.Errorf("line %d, column %d: %s", row, column, strings.TrimPrefix(bad.Error(), "toml: "))
		}
		return err
	}
	var tree map[string]any
	if err := toml.Unmarshal(data, &tree); err != nil {
		return err
	}
	for name, v := range tree {
		c.set[name] = true
		if table, ok := v.(map[string]any); ok {
			for sub := range table {
				c.set[name+"."+sub] = true
			}
		}
	}
	if c.set["listen"] {
		if err := checkListen("listen", c.Listen); err != nil {
			return err
		}
	}
	for i, file := range c.AuthorizedKeys {
		abs, err := c.expand(file)
		if err != nil {
			return fmt.Errorf("authorized_keys: %w", err)
		}
		c.AuthorizedKeys[i] = abs
	}
	return c.Check()
}

// expand makes a path of the file absolute: ~/ is the home folder, and what is relative starts at the file's own folder.
func (c *configured) expand(path string) (string, error) {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", errors.New("HOME is not set")
		}
		return filepath.Join(home, rest), nil
	}
	if filepath.IsAbs(path) {
		return filepath.Clean(path), nil
	}
	return filepath.Join(filepath.Dir(c.path), path), nil
}

func (c *configured) source(name string) string {
	if c.set[name] {
		return c.path
	}
	return "default"
}

// rows are all settings by the names of the file, with their values and where each came from.
func (c *configured) rows() []row {
	return appendRows(nil, "", reflect.ValueOf(c.settings), c.source)
}

type row struct {
	name string
	value
}

func appendRows(rows []row, prefix string, v reflect.Value, source func(string) string) []row {
	for _, f := range reflect.VisibleFields(v.Type()) {
		tag, ok := f.Tag.Lookup("toml")
		if !ok {
			continue
		}
		name, field := prefix+tag, v.FieldByIndex(f.Index)
		if field.Kind() == reflect.Struct && !field.Type().Implements(textMarshaler) {
			rows = appendRows(rows, name+".", field, source)
			continue
		}
		if field.Kind() == reflect.Map { // tables by names of the person's own: each is shown by the keys that it sets
			for _, key := range slices.SortedFunc(slices.Values(field.MapKeys()), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }) {
				rows = appendSet(rows, name+"."+key.String(), field.MapIndex(key), source(name))
			}
			continue
		}
		rows = append(rows, row{name, value{field.Interface(), source(name)}})
	}
	return rows
}

// appendSet adds a row for each key that a table sets.
func appendSet(rows []row, prefix string, v reflect.Value, source string) []row {
	for _, f := range reflect.VisibleFields(v.Type()) {
		tag, field := f.Tag.Get("toml"), v.FieldByIndex(f.Index)
		if tag != "-" && !field.IsZero() {
			rows = append(rows, row{prefix + "." + tag, value{field.Interface(), source}})
		}
	}
	return rows
}

var textMarshaler = reflect.TypeFor[interface{ MarshalText() ([]byte, error) }]()

// ssh is the ssh command in force, "" for the one of the PATH.
func (a *app) ssh() (value, error) {
	if s := os.Getenv("PERDURE_SSH"); s != "" {
		return value{s, "PERDURE_SSH"}, nil
	}
	c, err := readSettings("")
	return value{c.SSH, c.source("ssh")}, err
}

// serverSettings are those of serve: the file's, with the flags before them.
func (f *serveFlags) settings() (configured, []row, error) {
	c, err := readSettings(f.config)
	if err != nil {
		return c, nil, err
	}
	from := map[string]string{}
	if len(f.listen) > 0 {
		if err := checkListen("--listen", f.listen); err != nil {
			return c, nil, err
		}
		c.Listen, from["listen"] = slices.Clone(f.listen), "--listen"
	}
	switch home, err := os.UserHomeDir(); {
	case len(f.keys) > 0:
		c.AuthorizedKeys, from["authorized_keys"] = slices.Clone(f.keys), "--authorized-keys"
		for i, file := range c.AuthorizedKeys {
			if c.AuthorizedKeys[i], err = filepath.Abs(file); err != nil {
				return c, nil, fmt.Errorf("find %s: %w", file, err)
			}
		}
	case c.set["authorized_keys"]:
	case err != nil:
		c.AuthorizedKeys, from["authorized_keys"] = []string{}, "HOME is not set"
	default:
		c.AuthorizedKeys = []string{filepath.Join(home, ".ssh", "authorized_keys")}
	}
	rows := c.rows()
	for i, r := range rows {
		if s := from[r.name]; s != "" {
			rows[i].Source = s
		}
	}
	return c, rows, nil
}
