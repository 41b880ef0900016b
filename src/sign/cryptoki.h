/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SIGN_CRYPTOKI_H
#define TW_SIGN_CRYPTOKI_H
/* The little of Cryptoki that signing takes, declared after the OASIS standard "PKCS #11
 * Cryptographic Token Interface Base Specification Version 2.40", so that no package's header is
 * needed. Names are the standard's. */

typedef unsigned long CK_ULONG;
typedef CK_ULONG CK_RV, CK_SLOT_ID, CK_SESSION_HANDLE, CK_OBJECT_HANDLE;

struct ck_attribute {
    CK_ULONG type;
    void *value;
    CK_ULONG length;
};
struct ck_mechanism {
    CK_ULONG mechanism;
    void *parameter;
    CK_ULONG length;
};
struct ck_token_info {
    unsigned char label[32], manufacturer[32], model[16], serial[16]; /* padded with blanks */
    CK_ULONG flags, numbers[10];
    unsigned char versions[4], utc_time[16];
};

/* Places in CK_FUNCTION_LIST behind its version, in the standard's order. */
enum {
    CK_INITIALIZE = 0,
    CK_FINALIZE = 1,
    CK_GET_SLOT_LIST = 4,
    CK_GET_TOKEN_INFO = 6,
    CK_OPEN_SESSION = 12,
    CK_CLOSE_SESSION = 13,
    CK_LOGIN = 18,
    CK_GET_ATTRIBUTE_VALUE = 24,
    CK_FIND_OBJECTS_INIT = 26,
    CK_FIND_OBJECTS = 27,
    CK_FIND_OBJECTS_FINAL = 28,
    CK_SIGN_INIT = 42,
    CK_SIGN = 43,
    CK_FUNCTIONS = 68
};
struct ck_function_list {
    unsigned char version[2];
    void (*function[CK_FUNCTIONS])(void);
};

typedef CK_RV ck_get_function_list(struct ck_function_list **list);
typedef CK_RV ck_initialize(void *arguments);
typedef CK_RV ck_get_slot_list(unsigned char with_token, CK_SLOT_ID *list, CK_ULONG *count);
typedef CK_RV ck_get_token_info(CK_SLOT_ID slot, struct ck_token_info *info);
typedef CK_RV ck_open_session(CK_SLOT_ID slot, CK_ULONG flags, void *application, void *notify,
                              CK_SESSION_HANDLE *session);
typedef CK_RV ck_close_session(CK_SESSION_HANDLE session);
typedef CK_RV ck_login(CK_SESSION_HANDLE session, CK_ULONG user, const unsigned char *pin,
                       CK_ULONG length);
typedef CK_RV ck_get_attribute_value(CK_SESSION_HANDLE session, CK_OBJECT_HANDLE object,
                                     struct ck_attribute *list, CK_ULONG count);
typedef CK_RV ck_find_objects_init(CK_SESSION_HANDLE session, struct ck_attribute *list,
                                   CK_ULONG count);
typedef CK_RV ck_find_objects(CK_SESSION_HANDLE session, CK_OBJECT_HANDLE *list, CK_ULONG room,
                              CK_ULONG *count);
typedef CK_RV ck_find_objects_final(CK_SESSION_HANDLE session);
typedef CK_RV ck_sign_init(CK_SESSION_HANDLE session, struct ck_mechanism *mechanism,
                           CK_OBJECT_HANDLE key);
typedef CK_RV ck_sign(CK_SESSION_HANDLE session, const unsigned char *data, CK_ULONG n,
                      unsigned char *signature, CK_ULONG *length);

enum {
    CKF_SERIAL_SESSION = 4,
    CKF_LOGIN_REQUIRED = 4,
    CKF_TOKEN_INITIALIZED = 0x400,
    CKU_USER = 1
};
enum {
    CKO_PUBLIC_KEY = 2,
    CKO_PRIVATE_KEY = 3,
    CKK_EC = 3,
    CKK_EC_EDWARDS = 0x40,
    CKM_ECDSA = 0x1041,
    CKM_EDDSA = 0x1057
};
enum {
    CKA_CLASS = 0,
    CKA_LABEL = 3,
    CKA_KEY_TYPE = 0x100,
    CKA_ID = 0x102,
    CKA_EC_PARAMS = 0x180,
    CKA_EC_POINT = 0x181
};
enum {
    CKR_OK = 0,
    CKR_MECHANISM_INVALID = 0x70,
    CKR_PIN_INCORRECT = 0xA0,
    CKR_PIN_LEN_RANGE = 0xA2,
    CKR_PIN_LOCKED = 0xA4,
    CKR_TOKEN_NOT_PRESENT = 0xE0,
    CKR_USER_ALREADY_LOGGED_IN = 0x100,
    CKR_USER_NOT_LOGGED_IN = 0x101,
    CKR_USER_PIN_NOT_INITIALIZED = 0x102,
    CKR_CRYPTOKI_ALREADY_INITIALIZED = 0x191
};
#endif
