/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "dataplane/wire/bytes.h"
#include "proof.h"

#define LABEL_LEN 16u
#define END_LEN (16u + 4 + 4)
#define TEXT_LEN (LABEL_LEN + RSM_REQ_LEN + 2 * RSM_NONCE_LEN + 2 * END_LEN + RSM_REP_LEN)

static uint8_t *
add_bytes(uint8_t *at, const void *data, size_t len)
{
	memcpy(at, data, len);
	return at + len;
}

static uint8_t *
add_end(uint8_t *at, const struct rsm_end *end)
{
	at = add_bytes(at, end->addr.gid, sizeof(end->addr.gid));
	store_be32(at, end->qpn);
	store_be32(at + 4, end->psn);
	return at + 8;
}

/* Each part has a fixed length, so different statements have different texts. */
static void
text_of(enum rsm_saying saying, const struct rsm_statement *statement, uint8_t text[TEXT_LEN])
{
	static const uint8_t no_grant[RSM_REP_LEN];
	struct rsm_end exporter = {.addr = statement->exporter.addr};
	bool rep = saying == RSM_SAYS_REP;

	if (rep)
		exporter = statement->exporter;
	text = add_bytes(text, rep ? "oneside RSM REP1" : "oneside RSM REQ1", LABEL_LEN);
	text = add_bytes(text, statement->claims, RSM_REQ_LEN);
	text = add_bytes(text, statement->exporter_nonce, RSM_NONCE_LEN);
	text = add_bytes(text, statement->importer_nonce, RSM_NONCE_LEN);
	text = add_end(text, &statement->importer);
	text = add_end(text, &exporter);
	add_bytes(text, rep ? statement->grant : no_grant, RSM_REP_LEN);
}

bool
rsm_code(const struct config_secret *secret, enum rsm_saying saying, const struct rsm_statement *statement,
	 uint8_t code[RSM_CODE_LEN])
{
	uint8_t text[TEXT_LEN], mac[EVP_MAX_MD_SIZE];
	const uint8_t *bytes;
	size_t len;

	/* Do not load OpenSSL's configuration: it is not needed, and the control thread must not wait for
	 * files. */
	if (OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL) != 1)
		return false;
	text_of(saying, statement, text);
	bytes = config_secret_bytes(secret, &len);
	if (HMAC(EVP_sha256(), bytes, (int)len, text, sizeof(text), mac, NULL) == NULL)
		return false;
	memcpy(code, mac, RSM_CODE_LEN);
	return true;
}

const struct config_secret *
rsm_code_secret(const struct config_peer *peer, enum rsm_saying saying, const struct rsm_statement *statement,
		const uint8_t code[RSM_CODE_LEN])
{
	uint8_t right[RSM_CODE_LEN];

	for (uint32_t i = 0; i < CONFIG_PEER_SECRETS; i++)
		if (peer->secret[i] != NULL && rsm_code(peer->secret[i], saying, statement, right) &&
		    CRYPTO_memcmp(right, code, RSM_CODE_LEN) == 0)
			return peer->secret[i];
	return NULL;
}
