/* A PKCS#11 module whose token fails in a way that softhsm2 does not. The environment variable FAKE_TOKEN selects the way.
 *
 * The token "fake" contains one Ed25519 key "fw". It has the public key of the first test of RFC 8032 and signs 64 zero bytes. The module
 * appends the name of each important call to the file in FAKE_TOKEN_CALLS. */
#include <p11-kit-1/p11-kit/pkcs11.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const unsigned char key[32] = {
    0xd7, 0x5a, 0x98, 0x01, 0x82, 0xb1, 0x0a, 0xb7, 0xd5, 0x4b, 0xfe, 0xd3, 0xc9, 0x64, 0x07, 0x3a,
    0x0e, 0xe1, 0x72, 0xf3, 0xda, 0xa6, 0x23, 0x25, 0xaf, 0x02, 0x1a, 0x68, 0xf7, 0x07, 0x51, 0x1a};
static CK_OBJECT_CLASS wanted;
static int searched;

static int is(const char *way) {
    const char *chosen = getenv("FAKE_TOKEN");
    return chosen && strcmp(chosen, way) == 0;
}

static void called(const char *name) {
    const char *path = getenv("FAKE_TOKEN_CALLS");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (!file) return;
    fprintf(file, "%s\n", name);
    fclose(file);
}

static CK_RV initialize(void *arguments) {
    (void)arguments;
    called("initialize");
    return CKR_OK;
}

static CK_RV finalize(void *reserved) {
    (void)reserved;
    called("finalize");
    return CKR_OK;
}

static CK_RV slots(unsigned char present, CK_SLOT_ID *list, unsigned long *count) {
    (void)present;
    if (is("many-slots")) {
        *count = -1UL;
        return CKR_OK;
    }
    if (list) list[0] = 7;
    *count = 1;
    return CKR_OK;
}

static CK_RV token(CK_SLOT_ID slot, CK_TOKEN_INFO *info) {
    (void)slot;
    memset(info, ' ', sizeof *info);
    memcpy(info->label, is("control-label") ? "\033[31" : "fake", 4);
    memcpy(info->serialNumber, "1", 1);
    info->flags = CKF_TOKEN_INITIALIZED | CKF_LOGIN_REQUIRED | CKF_USER_PIN_INITIALIZED;
    if (is("last-try")) info->flags |= CKF_USER_PIN_FINAL_TRY;
    if (is("locked")) info->flags |= CKF_USER_PIN_LOCKED;
    if (is("keypad")) info->flags |= CKF_PROTECTED_AUTHENTICATION_PATH;
    return CKR_OK;
}

static CK_RV mechanism(CK_SLOT_ID slot, CK_MECHANISM_TYPE type, CK_MECHANISM_INFO *info) {
    (void)slot, (void)type, (void)info;
    return CKR_OK;
}

static CK_RV open_session(CK_SLOT_ID slot, CK_FLAGS flags, void *data, CK_NOTIFY notify, CK_SESSION_HANDLE *session) {
    (void)slot, (void)flags, (void)data, (void)notify;
    *session = 1;
    return is("no-session") ? CKR_SESSION_COUNT : CKR_OK;
}

static CK_RV close_session(CK_SESSION_HANDLE session) {
    (void)session;
    return CKR_OK;
}

static CK_RV login(CK_SESSION_HANDLE session, CK_USER_TYPE user, unsigned char *pin, unsigned long length) {
    (void)session, (void)user, (void)length;
    called(pin ? "login" : "login by keypad");
    if (is("locks")) return CKR_PIN_LOCKED;
    if (is("no-pin")) return CKR_USER_PIN_NOT_INITIALIZED;
    if (is("expired")) return CKR_PIN_EXPIRED;
    if (is("wrong")) return CKR_PIN_INCORRECT;
    if (is("short")) return CKR_PIN_LEN_RANGE;
    if (is("removed-at-login")) return CKR_DEVICE_REMOVED;
    return CKR_OK;
}

static CK_RV find_init(CK_SESSION_HANDLE session, CK_ATTRIBUTE *template, unsigned long count) {
    (void)session, (void)count;
    memcpy(&wanted, template->pValue, sizeof wanted);
    searched = 0;
    return CKR_OK;
}

static CK_RV find(CK_SESSION_HANDLE session, CK_OBJECT_HANDLE *objects, unsigned long maximum, unsigned long *count) {
    (void)session, (void)maximum;
    if (is("endless")) {
        for (unsigned long i = 0; i < maximum; i++) objects[i] = 1;
        *count = maximum;
        return CKR_OK;
    }
    *count = searched++ ? 0 : 1;
    if (is("many-objects")) *count = -1UL;
    objects[0] = wanted;
    return CKR_OK;
}

static CK_RV find_final(CK_SESSION_HANDLE session) {
    (void)session;
    return CKR_OK;
}

static CK_RV value(CK_ATTRIBUTE *attribute, const void *bytes, unsigned long length) {
    if (is("long-attributes")) {
        attribute->ulValueLen = attribute->pValue ? -1UL : length;
        return CKR_OK;
    }
    if (attribute->pValue) memcpy(attribute->pValue, bytes, length);
    attribute->ulValueLen = length;
    return CKR_OK;
}

static CK_RV attribute(CK_SESSION_HANDLE session, CK_OBJECT_HANDLE object, CK_ATTRIBUTE *attribute, unsigned long count) {
    (void)session, (void)count;
    CK_KEY_TYPE kind = is("montgomery") ? 0x41 : CKK_EC_EDWARDS;
    unsigned char encoded[44] = {0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00};
    memcpy(encoded + 12, key, 32);
    switch (attribute->type) {
    case CKA_KEY_TYPE: return value(attribute, &kind, sizeof kind);
    case CKA_LABEL: return value(attribute, "fw", 2);
    case CKA_ID: return value(attribute, "\001", 1);
    case CKA_EC_POINT:
        if (is("raw-point")) return value(attribute, key, 32);
        if (is("bit-string")) return value(attribute, encoded + 9, 35);
        if (is("long-point")) return value(attribute, encoded, 44);
        if (is("info-only") && object == CKO_PUBLIC_KEY) break;
        encoded[10] = 0x04, encoded[11] = 0x20;
        return value(attribute, encoded + 10, 34);
    case CKA_PUBLIC_KEY_INFO:
        if (is("info-only")) return value(attribute, encoded, 44);
    }
    attribute->ulValueLen = CK_UNAVAILABLE_INFORMATION;
    return CKR_ATTRIBUTE_TYPE_INVALID;
}

static CK_RV sign_init(CK_SESSION_HANDLE session, CK_MECHANISM *mechanism, CK_OBJECT_HANDLE object) {
    (void)session, (void)mechanism, (void)object;
    if (is("not-permitted")) return CKR_KEY_FUNCTION_NOT_PERMITTED;
    return is("no-eddsa") ? CKR_MECHANISM_INVALID : CKR_OK;
}

static CK_RV sign(CK_SESSION_HANDLE session, unsigned char *data, unsigned long length, unsigned char *signature, unsigned long *count) {
    (void)session, (void)data, (void)length;
    called("sign");
    if (is("removed")) return CKR_DEVICE_REMOVED;
    if (is("too-long")) return CKR_DATA_LEN_RANGE;
    memset(signature, 0, 64);
    *count = is("long-signature") ? -1UL : is("short-signature") ? 63 : 64;
    return CKR_OK;
}

CK_RV C_GetFunctionList(CK_FUNCTION_LIST **list) {
    static CK_FUNCTION_LIST functions;
    functions.version.major = is("version-1") ? 1 : 2;
    functions.C_Initialize = initialize;
    functions.C_Finalize = finalize;
    functions.C_GetSlotList = is("no-functions") ? NULL : slots;
    functions.C_GetTokenInfo = token;
    functions.C_GetMechanismInfo = mechanism;
    functions.C_OpenSession = open_session;
    functions.C_CloseSession = close_session;
    functions.C_Login = login;
    functions.C_FindObjectsInit = find_init;
    functions.C_FindObjects = find;
    functions.C_FindObjectsFinal = find_final;
    functions.C_GetAttributeValue = attribute;
    functions.C_SignInit = sign_init;
    functions.C_Sign = sign;
    *list = &functions;
    return is("no-list") ? CKR_GENERAL_ERROR : CKR_OK;
}
