internal import OTAFirmware
public import OTASigning

/// The PKCS#11 URI of a key in a token (RFC 7512), such as `pkcs11:token=release;object=fw?pin-source=/run/secrets/pin`.
///
/// The parser is stricter than RFC 7512. The parser refuses unknown attributes, because a URI could select an unexpected key if an unknown
/// attribute were ignored. The parser also refuses an attribute that occurs twice, a blank, and a PIN in the URI (`pin-value`).
public struct TokenURI: Sendable, Equatable {
    // The next attributes select the token.
    public private(set) var token: String?
    public private(set) var serial: String?
    public private(set) var manufacturer: String?
    public private(set) var model: String?
    /// The number of the slot that contains the token.
    public private(set) var slot: UInt?

    // The next attributes select the key.
    /// The label of the key (CKA_LABEL).
    public private(set) var object: String?
    /// The ID of the key (CKA_ID): any bytes.
    public private(set) var id: [UInt8]?

    /// The path of the PKCS#11 module.
    public private(set) var modulePath: String?
    /// The path of the file that contains the PIN.
    public private(set) var pinSource: String?

    /// The start of every PKCS#11 URI.
    public static let scheme = "pkcs11:"

    /// Parses a URI.
    ///
    /// - Throws: `bad-key-uri`. The error does not contain the value of a PIN.
    public init(_ text: String) throws(KeyError) {
        guard text.hasPrefix(Self.scheme) else { throw Self.malformed("it does not start with \(Self.scheme)") }
        let rest = Array(text.utf8.dropFirst(Self.scheme.utf8.count))
        let parts = rest.split(separator: UInt8(ascii: "?"), maxSplits: 1, omittingEmptySubsequences: false)
        var names: Set<String> = []
        var hasType = false
        for (name, value) in try Self.attributes(parts[0], UInt8(ascii: ";"), &names) {
            switch name {
            case "token": token = try Self.text(value, name)
            case "serial": serial = try Self.text(value, name)
            case "manufacturer": manufacturer = try Self.text(value, name)
            case "model": model = try Self.text(value, name)
            case "slot-id": slot = try Self.number(value, name)
            case "object": object = try Self.text(value, name)
            case "id": id = value
            case "type": hasType = try Self.text(value, name) != "private"
            default: throw Self.unsupported(name, isQuery: false)
            }
        }
        guard !hasType else {
            throw Self.malformed("type is not 'private'", hint: "omit type: the private key is always used")
        }
        guard parts.count == 2 else { return }
        for (name, value) in try Self.attributes(parts[1], UInt8(ascii: "&"), &names) {
            switch name {
            case "module-path": modulePath = try Self.path(value, name)
            case "pin-source": pinSource = try Self.pinSource(value)
            default: throw Self.unsupported(name, isQuery: true)
            }
        }
    }

    // MARK: Attributes

    /// Splits the part of the URI before or after the `?` into its attributes, and decodes their values. `names` contains the names that
    /// have already occurred in the URI, also in the other part.
    private static func attributes(
        _ part: ArraySlice<UInt8>, _ separator: UInt8, _ names: inout Set<String>
    ) throws(KeyError) -> [(name: String, value: [UInt8])] {
        guard !part.isEmpty else { return [] }
        var found: [(String, [UInt8])] = []
        for attribute in part.split(separator: separator, omittingEmptySubsequences: false) {
            let sides = attribute.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            let name = String(decoding: sides[0], as: UTF8.self)
            guard sides.count == 2, !name.isEmpty else {
                throw malformed("an attribute is not NAME=VALUE")
            }
            guard names.insert(name).inserted else { throw malformed("the attribute '\(name)' occurs twice") }
            // Refuse `pin-value` before `decode`. The user then always sees why it is refused, and no later code has the PIN.
            guard name != "pin-value" else { throw unsupported(name, isQuery: true) }
            found.append((name, try decode(sides[1], of: name)))
        }
        return found
    }

    /// Replaces each `%` and the two hex digits after it with the byte that the digits encode.
    private static func decode(_ value: ArraySlice<UInt8>, of name: String) throws(KeyError) -> [UInt8] {
        var bytes: [UInt8] = []
        var rest = value
        while let byte = rest.popFirst() {
            guard byte > 0x20, byte != 0x7F else {
                throw malformed("'\(name)' contains a blank or a control character", hint: "write a blank as %20")
            }
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            let digits = String(decoding: rest.prefix(2), as: UTF8.self)
            guard digits.utf8.count == 2, let decoded = Hex.decode(digits), let byte = decoded.first else {
                throw malformed("'\(name)' contains a % without two hex digits", hint: "write the character % as %25")
            }
            bytes.append(byte)
            rest = rest.dropFirst(2)
        }
        return bytes
    }

    private static func text(_ value: [UInt8], _ name: String) throws(KeyError) -> String {
        guard let text = String(validating: value, as: UTF8.self), text.isPrintable else {
            throw malformed("'\(name)' is not printable text in UTF-8")
        }
        return text
    }

    private static func number(_ value: [UInt8], _ name: String) throws(KeyError) -> UInt {
        guard value.allSatisfy((UInt8(ascii: "0")...UInt8(ascii: "9")).contains),
            let number = UInt(String(decoding: value, as: UTF8.self))
        else {
            throw malformed("'\(name)' is not a decimal number")
        }
        return number
    }

    private static func path(_ value: [UInt8], _ name: String) throws(KeyError) -> String {
        let path = try text(value, name)
        guard !path.isEmpty else { throw malformed("'\(name)' is empty") }
        return path
    }

    /// Returns the path of the file that a `pin-source` names. A `pin-source` is a path, or a URI with the scheme `file`.
    private static func pinSource(_ value: [UInt8]) throws(KeyError) -> String {
        let source = try path(value, "pin-source")
        let hint = "give a file that only you can read: pin-source=/run/secrets/pin"
        guard !source.hasPrefix("|") else {
            throw malformed("pin-source is a command; otaflash does not run it", hint: hint)
        }
        guard let colon = source.firstIndex(of: ":"), !source[..<colon].contains("/") else { return source }
        guard source.hasPrefix("file:") else { throw malformed("pin-source is not a file", hint: hint) }
        var path = source.dropFirst("file:".count)
        for host in ["//localhost/", "///"] where path.hasPrefix(host) { path = path.dropFirst(host.count - 1) }
        guard !path.isEmpty, !path.hasPrefix("//") else { throw malformed("pin-source is not a file", hint: hint) }
        return String(path)
    }

    // MARK: Errors

    private static func unsupported(_ name: String, isQuery: Bool) -> KeyError {
        switch name {
        case "pin-value":
            malformed(
                "pin-value is refused, because every user of this computer can read the arguments of a process",
                hint: "give the PIN with --pin-fd N or --pin-env NAME, or as a file: pin-source=PATH")
        case "module-name":
            malformed("module-name is not supported", hint: "give the path of the module: module-path=PATH")
        case "module-path", "pin-source":
            malformed("'\(name)' is before the ?", hint: "write it after the first ?: pkcs11:object=NAME?\(name)=PATH")
        case _ where isQuery:
            malformed("the attribute '\(name)' is not supported after the ?", hint: "use module-path and pin-source")
        default:
            malformed(
                "the attribute '\(name)' is not supported",
                hint: "use token, serial, manufacturer, model, slot-id, object and id")
        }
    }

    private static func malformed(_ problem: String, hint: String? = nil) -> KeyError {
        KeyError(.badKeyURI, "the PKCS#11 URI is not valid: \(problem)", hint: hint)
    }
}

// MARK: Encoding

extension TokenURI {
    /// Returns a URI with these attributes. The URI never contains a PIN or the attribute `pin-source`.
    package static func text(token: String, serial: String, object: String, id: [UInt8], modulePath: String?) -> String
    {
        var attributes = ["token=\(encode(token.utf8))", "serial=\(encode(serial.utf8))"]
        if !object.isEmpty { attributes.append("object=\(encode(object.utf8))") }
        if !id.isEmpty { attributes.append("id=\(encode(id: id))") }
        return scheme + attributes.joined(separator: ";")
            + (modulePath.map { "?module-path=\(encode($0.utf8, plain: "-._~/"))" } ?? "")
    }

    /// Encodes each byte of an id as `%` and two hex digits.
    static func encode(id: [UInt8]) -> String { id.map { "%" + Hex.encode([$0]) }.joined() }

    /// Encodes each byte except letters, digits and the characters of `plain` as `%` and two hex digits.
    static func encode(_ bytes: some Sequence<UInt8>, plain: String = "-._~") -> String {
        bytes.map { byte in
            let character = Character(UnicodeScalar(byte))
            let isPlain = byte < 0x80 && (character.isLetter || character.isNumber || plain.contains(character))
            return isPlain ? String(character) : "%" + Hex.encode([byte])
        }.joined()
    }
}
