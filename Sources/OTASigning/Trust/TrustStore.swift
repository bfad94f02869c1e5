public import OTAFirmware
public import SystemPackage

/// The public keys that are trusted, by id.
public struct TrustStore: Sendable {
    private var keysByID: [KeyID: PublicKey] = [:]

    /// - Throws: `key-id-conflict` where two different keys have one id. The same key twice is fine.
    public init(_ keys: some Sequence<PublicKey>) throws(KeyError) {
        for key in keys { try add(key) }
    }

    /// Loads files, and folders, in which the files `*.pub.pem` count.
    ///
    /// - Throws: `no-such-file`; `trust-open-to-others` for a file or folder that anybody may write to;
    ///   `no-trusted-key` where none was found; `key-id-conflict`; what `KeyFile.publicKey(at:)` throws, with the path.
    public init(paths: [FilePath]) throws(KeyError) {
        for path in paths {
            let named = try Self.guarded(SmallFile(path))
            guard named.isFolder else {
                try add(named.publicKey(), from: path)
                continue
            }
            for name in try TrustFolder.keyFiles(in: path) {
                try add(Self.guarded(SmallFile(path.appending(name))).publicKey(), from: path.appending(name))
            }
        }
        guard !keysByID.isEmpty else {
            let places = paths.map(\.string).joined(separator: ", ")
            throw KeyError(.noTrustedKey, places.isEmpty ? "no trusted key" : "no trusted key in \(places)")
        }
    }

    /// Ascending by id.
    public var keys: [PublicKey] { keysByID.values.sorted { $0.id < $1.id } }

    public subscript(id: KeyID) -> PublicKey? { keysByID[id] }

    private mutating func add(_ key: PublicKey, from path: FilePath? = nil) throws(KeyError) {
        guard let known = keysByID.updateValue(key, forKey: key.id), known != key else { return }
        let place = path.map { "\($0): " } ?? ""
        throw KeyError(.keyIDConflict, "\(place)another key with the id \(key.id) is trusted already")
    }

    /// `file`, unless anybody may write to it.
    private static func guarded(_ file: SmallFile) throws(KeyError) -> SmallFile {
        // A device is meant for everybody, and no key.
        if !file.isFolder { try file.expectFile() }
        guard !file.status.permissions.contains(.otherWrite) else {
            throw KeyError(
                .trustOpenToOthers, "\(file.path): anybody may write to it, and so decide what is trusted",
                hint: "chmod o-w \(file.path.string.shellQuoted)")
        }
        return file
    }
}
