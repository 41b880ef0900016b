// SPDX-License-Identifier: Apache-2.0
// TOML 1.0 by toml++, the only part in C++: Debian has no TOML reader for C. No exception leaves this file.
#include <stdexcept>

// "[[[[" trips an assertion of version 3.3.0 without exceptions: a text is no reason to end.
[[noreturn]] static inline void assertion_failed()
{
    throw std::logic_error("not TOML");
}

#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 1
#define TOML_ASSERT(expression) ((expression) ? static_cast<void>(0) : assertion_failed())
#include <toml++/toml.h>

#include <cmath>
#include <jansson.h>
#include <sstream>
#include <string>

#include "internal.h"

namespace {

struct reader {
    const char *name;
    struct twin_error *err;
};

json_t *refuse(const reader &r, int code, const toml::node &node, const char *what)
{
    twin_error_set(r.err, code, "%s: line %u: %s", r.name, static_cast<unsigned>(node.source().begin.line), what);
    return nullptr;
}

template <class T> std::string written(const T &value)
{
    std::ostringstream text;
    text << value;
    return text.str();
}

json_t *value_of(const reader &r, const toml::node &node, int depth)
{
    if (depth > TW_CONFIG_DEPTH)
        return refuse(r, TWIN_ELIMIT, node, "values nested too deep");
    if (const auto *table = node.as_table()) {
        json_t *out = json_object();
        for (auto &&[key, item] : *table) {
            const std::string name(key.str());
            if (name.compare(0, sizeof TW_TAG - 1, TW_TAG) == 0 || name.find('\0') != std::string::npos) {
                json_decref(out);
                return refuse(r, TWIN_EFORMAT, item, "keys with NUL, and those that begin with " TW_TAG ", cannot be kept");
            }
            json_t *value = value_of(r, item, depth + 1);
            if (!value || json_object_set_new(out, name.c_str(), value) != 0) {
                json_decref(out);
                return nullptr;
            }
        }
        return out;
    }
    if (const auto *array = node.as_array()) {
        json_t *out = json_array();
        for (auto &&item : *array) {
            json_t *value = value_of(r, item, depth + 1);
            if (!value || json_array_append_new(out, value) != 0) {
                json_decref(out);
                return nullptr;
            }
        }
        return out;
    }
    if (const auto *v = node.as_string())
        return json_stringn(v->get().data(), v->get().size());
    if (const auto *v = node.as_integer())
        return tw_config_integer(v->get());
    if (const auto *v = node.as_floating_point())
        return std::isfinite(v->get()) ? json_real(v->get()) : refuse(r, TWIN_EFORMAT, node, "NaN and infinities have no canonical form");
    if (const auto *v = node.as_boolean())
        return json_boolean(v->get());
    std::string time;
    if (const auto *v = node.as_date())
        time = written(v->get());
    else if (const auto *w = node.as_time())
        time = written(w->get());
    else if (const auto *x = node.as_date_time())
        time = written(x->get());
    return json_pack("{s:s}", TW_TAG "time", time.c_str());
}

} // namespace

extern "C" json_t *tw_config_from_toml(const char *data, size_t n, const char *name, struct twin_error *err)
{
    try {
        const toml::table parsed = toml::parse(std::string_view(data, n), std::string_view(name));
        json_t *out = value_of(reader{name, err}, parsed, 0);
        if (!out)
            twin_error_set(err, TWIN_ENOMEM, "%s: no memory for its values", name);
        return out;
    } catch (const toml::parse_error &e) {
        const std::string what(e.description());
        twin_error_set(err, TWIN_EFORMAT, "%s: line %u: %s", name, static_cast<unsigned>(e.source().begin.line), what.c_str());
        return nullptr;
    } catch (const std::logic_error &) {
        twin_error_set(err, TWIN_EFORMAT, "%s: not TOML", name);
        return nullptr;
    } catch (...) {
        twin_error_set(err, TWIN_ENOMEM, "%s: no memory to read TOML", name);
        return nullptr;
    }
}
