/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SECRET_SHAPES_H
#define TW_SECRET_SHAPES_H
/*
 * The shapes of tokens as services publish them: one row each, with a test vector that no service
 * ever gave out.
 *
 *   TW_SHAPE(service, beginning, characters, least, vector)
 *
 * `characters` names what follows the beginning: WORD letters, digits, '_' and '-'; DOTTED the same
 * and '.'; HEX hex digits; UPPER capital letters and digits; BASE64 WORD and "+/=". `least` is how
 * many of them make a token. A vector is what follows the beginning. To add a service, add a row:
 * tests/unit/test_secret.c runs over them all.
 */
#define TW_VECTOR_UPPER "Q7RW2KXZ5M3T9PLB"
#define TW_VECTOR_HEX "0c3d9ab14f7e62858d90b1c2a3f4e5d6"
#define TW_VECTOR_WORD "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY1zA2"
#define TW_VECTOR_DOTTED "aB3dE5fG7hJ9kL1mN2pQ4r.S6tU8vW0xY1zA2bC3dE5fG7h"
#define TW_VECTOR_JWT "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJlMTIz"

/* clang-format off */
#define TW_SECRET_SHAPES \
    TW_SHAPE("Age", "AGE-SECRET-KEY-1", UPPER, 16, TW_VECTOR_UPPER) \
    TW_SHAPE("Anthropic, OpenAI", "sk-", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("Atlassian", "ATATT3x", BASE64, 16, TW_VECTOR_WORD) \
    TW_SHAPE("Atlassian", "ATCTT3x", BASE64, 16, TW_VECTOR_WORD) \
    TW_SHAPE("AWS", "AKIA", UPPER, 16, TW_VECTOR_UPPER) \
    TW_SHAPE("AWS", "ASIA", UPPER, 16, TW_VECTOR_UPPER) \
    TW_SHAPE("Databricks", "dapi", HEX, 32, TW_VECTOR_HEX) \
    TW_SHAPE("DigitalOcean", "dop_v1_", HEX, 32, TW_VECTOR_HEX) \
    TW_SHAPE("DigitalOcean", "doo_v1_", HEX, 32, TW_VECTOR_HEX) \
    TW_SHAPE("DigitalOcean", "dor_v1_", HEX, 32, TW_VECTOR_HEX) \
    TW_SHAPE("Docker", "dckr_pat_", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("Docker", "dckr_oat_", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("Doppler", "dp.pt.", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("Facebook", "EAACEdEose0cBA", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("Fly.io", "fo1_", WORD, 30, TW_VECTOR_WORD) \
    TW_SHAPE("GitHub", "ghp_", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("GitHub", "gho_", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("GitHub", "ghs_", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("GitHub", "ghu_", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("GitHub", "ghr_", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("GitHub", "github_pat_", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("GitLab", "glpat-", DOTTED, 16, TW_VECTOR_WORD) \
    TW_SHAPE("GitLab", "gldt-", DOTTED, 16, TW_VECTOR_WORD) \
    TW_SHAPE("GitLab", "glrt-", DOTTED, 16, TW_VECTOR_WORD) \
    TW_SHAPE("GitLab", "glcbt-", DOTTED, 16, TW_VECTOR_WORD) \
    TW_SHAPE("GitLab", "glptt-", DOTTED, 16, TW_VECTOR_WORD) \
    TW_SHAPE("GitLab", "glsoat-", DOTTED, 16, TW_VECTOR_WORD) \
    TW_SHAPE("Google", "AIza", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("Google", "ya29.", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("Google", "GOCSPX-", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("Grafana", "glc_", BASE64, 16, TW_VECTOR_WORD) \
    TW_SHAPE("Grafana", "glsa_", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("Groq", "gsk_", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("HashiCorp", "hvs.", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("HashiCorp", "hvb.", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("Hugging Face", "hf_", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("Hugging Face", "api_org_", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("JSON web token", "eyJ", DOTTED, 16, TW_VECTOR_JWT) \
    TW_SHAPE("Linear", "lin_api_", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("Mailgun", "key-", HEX, 32, TW_VECTOR_HEX) \
    TW_SHAPE("New Relic", "NRAK-", UPPER, 16, TW_VECTOR_UPPER) \
    TW_SHAPE("Notion", "ntn_", WORD, 30, TW_VECTOR_WORD) \
    TW_SHAPE("npm", "npm_", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("NVIDIA", "nvapi-", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("Perplexity", "pplx-", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("PlanetScale", "pscale_tkn_", DOTTED, 16, TW_VECTOR_WORD) \
    TW_SHAPE("PlanetScale", "pscale_pw_", DOTTED, 16, TW_VECTOR_WORD) \
    TW_SHAPE("Postman", "PMAK-", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("Pulumi", "pul-", HEX, 32, TW_VECTOR_HEX) \
    TW_SHAPE("PyPI", "pypi-", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("Replicate", "r8_", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("RubyGems", "rubygems_", HEX, 32, TW_VECTOR_HEX) \
    TW_SHAPE("SendGrid", "SG.", DOTTED, 16, TW_VECTOR_DOTTED) \
    TW_SHAPE("Sentry", "sntrys_", BASE64, 16, TW_VECTOR_WORD) \
    TW_SHAPE("Sentry", "sntryu_", HEX, 32, TW_VECTOR_HEX) \
    TW_SHAPE("Shopify", "shpat_", HEX, 32, TW_VECTOR_HEX) \
    TW_SHAPE("Shopify", "shpss_", HEX, 32, TW_VECTOR_HEX) \
    TW_SHAPE("Slack", "xoxb-", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("Slack", "xoxp-", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("Slack", "xoxa-", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("Slack", "xoxr-", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("Slack", "xoxs-", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("Slack", "xoxe.", DOTTED, 16, TW_VECTOR_WORD) \
    TW_SHAPE("Slack", "xapp-", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("Slack", "hooks.slack.com/services/", BASE64, 16, "T0A1B2C3D/B0A1B2C3D/aB3dE5fG7hJ9kL1mN2pQ4r") \
    TW_SHAPE("Slack", "hooks.slack.com/workflows/", BASE64, 16, "T0A1B2C3D/A0A1B2C3D/aB3dE5fG7hJ9kL1mN2pQ4r") \
    TW_SHAPE("Discord", "discord.com/api/webhooks/", BASE64, 16, "123456789012345678/aB3dE5fG7hJ9kL1mN2pQ4r") \
    TW_SHAPE("Square", "sq0atp-", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("Square", "sq0csp-", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("Stripe", "sk_live_", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("Stripe", "sk_test_", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("Stripe", "rk_live_", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("Stripe", "rk_test_", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("Stripe", "whsec_", BASE64, 16, TW_VECTOR_WORD) \
    TW_SHAPE("Together", "tgp_v1_", WORD, 16, TW_VECTOR_WORD) \
    TW_SHAPE("xAI", "xai-", WORD, 30, TW_VECTOR_WORD)
/* clang-format on */
#endif
