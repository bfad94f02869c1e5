internal import CPKCS11
internal import Glibc
internal import OTASigning

/// A loaded PKCS#11 module: the shared library of a token's vendor, or p11-kit's proxy for all registered modules.
///
/// `deinit` calls C_Finalize, but does not unload the library, because some libraries crash when they are unloaded.
final class TokenModule {
    /// The default module. This module is a part of p11-kit, and offers the tokens of all modules that are registered with p11-kit. The
    /// paths are those of Debian, Fedora and Arch Linux.
    static var proxy: String { proxies.first { access($0, F_OK) == 0 } ?? proxies[0] }
    private static let proxies = ["lib/\(architecture)-linux-gnu", "lib64", "lib"].map { "/usr/\($0)/p11-kit-proxy.so" }
    #if arch(x86_64)
        private static let architecture = "x86_64"
    #else
        private static let architecture = "aarch64"
    #endif

    let path: String
    private let functions: UnsafeMutablePointer<CK_FUNCTION_LIST>
    private let isOurs: Bool

    /// Loads and initializes a module.
    ///
    /// - Parameter path: the absolute path of the library. dlopen(3) would search a name in the folders of LD_LIBRARY_PATH, and a relative
    ///   path would name a file in the current directory. The code of a module runs in this process, so neither may choose it.
    /// - Throws: `token-unavailable`.
    init(_ path: String) throws(KeyError) {
        self.path = path
        guard path.hasPrefix("/") else {
            throw KeyError(
                .tokenUnavailable, "the path of the PKCS#11 module is not absolute: \(path)",
                hint: "give an absolute path, such as: /usr/lib/softhsm/libsofthsm2.so")
        }
        // dlopen() of a named pipe would wait without an end, so check the type of the file first.
        var status = stat()
        guard stat(path, &status) != 0 || status.st_mode & S_IFMT == S_IFREG else {
            throw Self.unavailable(path, "it is not a file")
        }
        guard let library = dlopen(path, RTLD_NOW | RTLD_LOCAL) else {
            var reason = dlerror().map { String(cString: $0) } ?? "unknown error"
            if reason.hasPrefix("\(path): ") { reason.removeFirst(path.count + 2) }
            throw Self.unavailable(path, "it cannot be loaded: \(reason)")
        }
        typealias GetFunctionList =
            @convention(c) (UnsafeMutablePointer<UnsafeMutablePointer<CK_FUNCTION_LIST>?>?) -> CK_RV
        guard let symbol = dlsym(library, "C_GetFunctionList") else {
            throw Self.unavailable(path, "it is not a PKCS#11 module")
        }
        var list: UnsafeMutablePointer<CK_FUNCTION_LIST>?
        let listed = ReturnValue(unsafeBitCast(symbol, to: GetFunctionList.self)(&list))
        // Version 3 of PKCS#11 only appends functions to the list of version 2, so both lists can be used. Version 1 has another list.
        guard listed == .ok, let functions = list, (2...3).contains(functions.pointee.version.major) else {
            throw Self.unavailable(path, listed == .ok ? "it has no PKCS#11 version 2" : "C_GetFunctionList: \(listed)")
        }
        self.functions = functions
        var arguments = CK_C_INITIALIZE_ARGS()
        arguments.flags = CKF_OS_LOCKING_OK
        let initialized = ReturnValue(functions.pointee.C_Initialize?(&arguments) ?? CKR_FUNCTION_NOT_SUPPORTED)
        switch initialized {
        case CKR_OK: isOurs = true
        // Another part of this process has initialized the module, so `deinit` must not call C_Finalize.
        case CKR_CRYPTOKI_ALREADY_INITIALIZED: isOurs = false
        default:
            throw KeyError(
                .tokenUnavailable, "\(path): C_Initialize: \(initialized)",
                hint: "check the module's own configuration, such as SOFTHSM2_CONF for softhsm2, and its permissions")
        }
    }

    deinit { if isOurs { _ = functions.pointee.C_Finalize?(nil) } }

    private static func unavailable(_ path: String, _ reason: String) -> KeyError {
        KeyError(
            .tokenUnavailable, "\(path): \(reason)",
            hint: proxies.contains(path)
                ? "install p11-kit's modules (apt-get install p11-kit-modules), or name the token's module: "
                    + "pkcs11:…?module-path=PATH"
                : "give the path of the token's PKCS#11 module: module-path=PATH in the URI, or OTAFLASH_PKCS11_MODULE")
    }

    /// Calls a function of the module.
    ///
    /// - Parameter function: the member of the function list. The member is nil if the module does not implement the function.
    /// - Throws: `functionNotSupported` if the member is nil; every result of the function except CKR_OK.
    func call<Function>(
        _ function: KeyPath<CK_FUNCTION_LIST, Function?>, _ body: (Function) -> CK_RV
    ) throws(ReturnValue) {
        guard let function = functions.pointee[keyPath: function] else { throw .functionNotSupported }
        let result = ReturnValue(body(function))
        guard result == .ok else { throw result }
    }

    /// Returns the numbers of the slots that contain a token.
    func slots() throws(ReturnValue) -> [CK_SLOT_ID] {
        var count: CK_ULONG = 0
        try call(\.C_GetSlotList) { $0(CK_BBOOL(CK_TRUE), nil, &count) }
        // Reserve 16 more places, because tokens can be inserted between the first call and the second.
        count = min(count, 1024) + 16
        let capacity = count
        var slots = [CK_SLOT_ID](repeating: 0, count: Int(capacity))
        try call(\.C_GetSlotList) { $0(CK_BBOOL(CK_TRUE), &slots, &count) }
        guard count <= capacity else { throw .generalError }
        return Array(slots.prefix(Int(count)))
    }

    /// Returns the description of the token in a slot; nil if the slot has no usable token.
    func token(in slot: CK_SLOT_ID) -> TokenDescription? {
        var info = CK_TOKEN_INFO()
        guard (try? call(\.C_GetTokenInfo) { $0(slot, &info) }) != nil else { return nil }
        guard info.flags & CKF_TOKEN_INITIALIZED != 0 else { return nil }
        return TokenDescription(slot: slot, info: info)
    }

    /// Returns whether the token in a slot supports a mechanism, such as CKM_EDDSA.
    func supports(_ mechanism: CK_MECHANISM_TYPE, in slot: CK_SLOT_ID) -> Bool {
        var info = CK_MECHANISM_INFO()
        return (try? call(\.C_GetMechanismInfo) { $0(slot, mechanism, &info) }) != nil
    }
}

/// The description of a token (CK_TOKEN_INFO). The token determines these values, so they are not trusted.
struct TokenDescription {
    let slot: CK_SLOT_ID
    let label, manufacturer, model, serial: String
    let flags: CK_FLAGS

    init(slot: CK_SLOT_ID, info: CK_TOKEN_INFO) {
        self.slot = slot
        label = Self.text(info.label)
        manufacturer = Self.text(info.manufacturerID)
        model = Self.text(info.model)
        serial = Self.text(info.serialNumber)
        flags = info.flags
    }

    func has(_ flag: CK_FLAGS) -> Bool { flags & flag != 0 }

    /// The token in messages, such as `"release" (serial 4e94338e28c6cbc1)`.
    var title: String { "\"\(label)\" (serial \(serial))" }

    /// The hint of an error, with the command that creates a key pair in this token.
    var keygenHint: String {
        let uri = "pkcs11:token=\(TokenURI.encode(label.utf8));object=fw"
        return "create an Ed25519 key in the token: otaflash keygen NAME --in \(uri.shellQuoted)"
    }

    /// Returns whether this token has the label, the serial number and the other token attributes in the URI. An attribute that the URI
    /// does not contain is not compared.
    func matches(_ uri: TokenURI) -> Bool {
        fits(label, uri.token) && fits(serial, uri.serial) && fits(manufacturer, uri.manufacturer)
            && fits(model, uri.model) && (uri.slot == nil || uri.slot == slot)
    }

    private func fits(_ value: String, _ wanted: String?) -> Bool {
        guard let wanted else { return true }
        return Array(value.utf8) == Array(wanted.utf8)
    }

    /// Reads a text from a field of fixed length. Blanks follow the text (PKCS#11 2.40, 3.2). With some modules, zero bytes follow.
    private static func text<Field>(_ field: Field) -> String {
        withUnsafeBytes(of: field) { bytes in
            let padding: (UInt8) -> Bool = { $0 == 0x20 || $0 == 0 }
            let end = bytes.lastIndex { !padding($0) }.map { $0 + 1 } ?? 0
            return String(decoding: bytes[..<end], as: UTF8.self)
        }
    }
}
