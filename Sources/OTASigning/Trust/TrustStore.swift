public import OTAFirmware
public import SystemPackage

/// The public keys that are trusted, by id.
public struct TrustStore: Sendable {
    private var keysByID: [KeyID: PublicKey] = [:]
    private var scopesByID: [KeyID: TrustScope] = [:]

    /// - Throws: `key-id-conflict` where two different keys have one id. The same key twice is fine.
    public init(_ keys: some Sequence<PublicKey>) throws(KeyError) {
        for key in keys { try add(key, nil) }
    }

    /// Loads files, and folders, in which the files `*.pub.pem` count. A file with the same name and `.scope` limits a key.
    ///
    /// - Throws: `no-such-file`; `trust-open-to-others` for a file or folder that anybody may write to;
    ///   `no-trusted-key` where none was found; `key-id-conflict`;
    ///   `bad-trust-scope` for a scope file that cannot be read, has no key, or contradicts another one; what `KeyFile.publicKey(at:)` throws, with the path.
    public init(paths: [FilePath]) throws(KeyError) {
        for path in paths {
            let named = try Self.guarded(SmallFile(path))
            guard named.isFolder else {
                try add(named.publicKey(), Self.scope(beside: path), from: path)
                continue
            }
            for name in try TrustFolder.keyFiles(in: path) {
                let file = path.appending(name)
                try add(Self.guarded(SmallFile(file)).publicKey(), Self.scope(beside: file), from: file)
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

    /// What the key may sign; nil: anything.
    public func scope(of id: KeyID) -> TrustScope? { scopesByID[id] }

    private mutating func add(
        _ key: PublicKey, _ scope: TrustScope?, from path: FilePath? = nil
    ) throws(KeyError) {
        let place = path.map { "\($0): " } ?? ""
        guard let known = keysByID.updateValue(key, forKey: key.id) else {
            scopesByID[key.id] = scope
            return
        }
        guard known == key else {
            throw KeyError(.keyIDConflict, "\(place)another key with the id \(key.id) is trusted already")
        }
        guard scopesByID[key.id]?.products == scope?.products, scopesByID[key.id]?.formats == scope?.formats else {
            throw KeyError(.badTrustScope, "\(place)the key \(key.id) is trusted already, with another scope")
        }
    }

    private static func scope(beside key: FilePath) throws(KeyError) -> TrustScope? {
        guard let path = TrustScope.path(beside: key) else { return nil }
        let text = try guarded(SmallFile(path)).contents()
        return try TrustScope(parsing: text.withUnsafeBytes { Array($0) }, of: path)
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
