package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/pflag"
)

// maxConfigFile bounds a file with settings, in bytes.
const maxConfigFile = 1 << 20

// flagNames lists flags by name.
func flagNames(f *pflag.FlagSet) (names []string) {
	f.VisitAll(func(flag *pflag.Flag) { names = append(names, flag.Name) })
	return names
}

// settingVariable is the environment variable of a setting: WRIT_TLS_CERT of tls-cert.
func settingVariable(name string) string {
	return "WRIT_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// readSettings sets those of the named flags that the command line does not say:
// from the environment, else from a YAML file, whose members are named like the
// flags. A member with another name is refused. An empty file name is no file.
func readSettings(f *pflag.FlagSet, names []string, file string, getenv func(string) string) error {
	members := map[string]any{}
	if file != "" {
		b, err := readBounded(file, maxConfigFile)
		if err != nil {
			return &usageError{fmt.Errorf("--config: %w", err)}
		}
		if err := yaml.Unmarshal(b, &members); err != nil {
			return &usageError{fmt.Errorf("--config: %s is not a YAML map of settings: %s", file, firstLine(err.Error()))}
		}
	}
	for name := range members {
		if !slices.Contains(names, name) {
			return &usageError{fmt.Errorf("--config: %s has the unknown setting %q; known are %s", file, name, strings.Join(names, ", "))}
		}
	}
	for _, name := range names {
		flag := f.Lookup(name)
		if flag == nil || flag.Changed {
			continue
		}
		if text := getenv(settingVariable(name)); text != "" {
			if err := f.Set(name, text); err != nil {
				return &usageError{fmt.Errorf("$%s: %s", settingVariable(name), expected(flag))}
			}
			continue
		}
		value, ok := members[name]
		if !ok {
			continue
		}
		text, err := settingText(value)
		if err == nil {
			err = f.Set(name, text)
		}
		if err != nil {
			return &usageError{fmt.Errorf("--config: %s: the setting %s: %s", file, name, expected(flag))}
		}
	}
	return nil
}

// expected says what a flag takes.
func expected(f *pflag.Flag) string {
	kind := map[string]string{
		"bool": "true or false", "int": "a whole number", "float64": "a number", "duration": "a time such as 20s or 1h",
		"stringSlice": "a list of texts", "stringToInt": "a map of names to whole numbers",
	}[f.Value.Type()]
	if kind == "" {
		kind = "a text"
	}
	return "expected " + kind
}

// settingText spells a value of a YAML file as a flag takes it.
func settingText(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case int, int64, uint64:
		return fmt.Sprint(v), nil
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), nil
	case []any:
		return joined(v, func(e any) (string, error) { return settingText(e) })
	case map[string]any:
		keys := make([]any, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.SortFunc(keys, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
		return joined(keys, func(k any) (string, error) {
			text, err := settingText(v[k.(string)])
			return k.(string) + "=" + text, err
		})
	}
	return "", errors.New("has a value of an unknown type")
}

// joined spells several values. None of them may have what separates them.
func joined(values []any, spell func(any) (string, error)) (string, error) {
	texts := make([]string, len(values))
	for i, v := range values {
		text, err := spell(v)
		if err != nil {
			return "", err
		}
		if strings.ContainsAny(text, ",\"\n") {
			return "", errors.New("has a comma, a quote or a line break")
		}
		texts[i] = text
	}
	return strings.Join(texts, ","), nil
}

// readKeys reads the file with the keys of signed tokens.
func readKeys(name string) ([]byte, error) {
	b, err := readBounded(name, maxKeyFile)
	if err != nil {
		return nil, &usageError{fmt.Errorf("--jwt-keys: %w", err)}
	}
	return b, nil
}

// readBounded reads a file that somebody else has written.
func readBounded(name string, limit int64) (_ []byte, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", name, limit)
	}
	return b, err
}

func firstLine(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	return text
}
