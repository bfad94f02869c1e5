internal import Glibc
public import OTAFirmware
public import SystemPackage

/// Limits a trusted key: states which bundles and images otaflash accepts from this key. The limit is in a scope file. Without a scope
/// file, all bundles and images that the key signed are accepted.
///
/// The scope file is in the same folder as the key file. Its name is the name of the key file with `.scope` at the end
/// (docs/command-line.md, "Limit a trusted key"). Example:
///
///     # a comment: a line that starts with #
///     format = bundle
///     product = acme-thermostat, acme-sensor
///
/// Unknown lines and values are errors. If they were ignored, a spelling mistake would remove a limit.
public struct TrustScope: Sendable, Hashable {
    /// The kind of file that the key may sign.
    public enum Format: String, Sendable, CaseIterable {
        case bundle
        /// An MCUboot image that is not in a bundle. The image has its own signature.
        case mcuboot
    }

    static let suffix = ".scope"

    /// The path of the scope file.
    public let file: FilePath
    /// The products whose bundles the key may sign. Nil means all products.
    public let products: Set<ProductName>?
    /// The kinds of files that the key may sign. Nil means both kinds.
    public let formats: Set<Format>?

    /// Parses the text of a scope file.
    ///
    /// - Parameter file: the path of the scope file.
    /// - Throws: `bad-trust-scope`. The message contains the path of the file. For an error in one line, the message also contains the
    ///   line's number.
    public init(parsing text: [UInt8], of file: FilePath) throws(KeyError) {
        var values: [Word: (line: Int, list: [String])] = [:]
        for (index, line) in text.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).enumerated() {
            let place = "\(file):\(index + 1)"
            guard let (word, list) = try Self.entry(line, at: place, of: file) else { continue }
            guard values.updateValue((index + 1, list), forKey: word) == nil else {
                throw Self.refusal("\(place): the line '\(word.rawValue)' appears twice")
            }
        }
        func set<Value: Hashable>(
            of word: Word, _ rule: String, _ read: (String) -> Value?
        ) throws(KeyError) -> Set<Value>? {
            guard let (line, list) = values[word] else { return nil }
            var set: Set<Value> = []
            for text in list {
                guard let value = read(text) else {
                    throw Self.refusal("\(file):\(line): '\(text)' is not a \(word.rawValue): expected \(rule)")
                }
                guard set.insert(value).inserted else {
                    throw Self.refusal("\(file):\(line): '\(text)' appears twice")
                }
            }
            return set
        }
        products = try set(of: .product, ProductName.rule) { ProductName($0) }
        formats = try set(of: .format, "bundle or mcuboot") { Format(rawValue: $0) }
        self.file = file
        guard products != nil || formats != nil else {
            throw Self.refusal("\(file): the file has no line 'product' or 'format', so it limits nothing")
        }
        guard products == nil || formats?.contains(.mcuboot) != true else {
            throw Self.refusal(
                "\(file): 'product' excludes the format mcuboot, because an MCUboot image names no product",
                hint: "remove the line 'format' or the line 'product'")
        }
    }

    /// Returns whether the key may sign a bundle with this manifest.
    public func covers(_ manifest: Manifest) -> Bool {
        formats?.contains(.bundle) ?? true && products?.contains(manifest.product) ?? true
    }

    /// Whether the key may sign MCUboot images. The value is false if `products` is not nil, because an image does not contain its product.
    public var coversImages: Bool { formats?.contains(.mcuboot) ?? true && products == nil }

    // MARK: File format

    private enum Word: String, CaseIterable { case product, format }

    /// Parses one line and returns the word before the `=` and the values after the `=`. Returns nil for an empty line or a comment.
    private static func entry(
        _ line: ArraySlice<UInt8>, at place: String, of file: FilePath
    ) throws(KeyError) -> (Word, [String])? {
        guard let first = line.first(where: { $0 != UInt8(ascii: " ") }), first != UInt8(ascii: "#") else { return nil }
        if let index = line.firstIndex(where: { !(0x20...0x7E ~= $0) }) {
            let column = line.distance(from: line.startIndex, to: index) + 1
            throw refusal(
                "\(place): byte 0x\(Hex.encode([line[index]]).uppercased()) in column \(column) is not printable ASCII",
                hint: advice(for: line[index...], column, in: file))
        }
        let halves = String(decoding: line, as: UTF8.self).split(
            separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let name = trimmed(halves[0])
        guard halves.count == 2, let word = Word(rawValue: name) else {
            let words = Word.allCases.map(\.rawValue).joined(separator: " or ")
            throw refusal("\(place): '\(name)' is not a known word: expected \(words), '=' and values")
        }
        return (word, halves[1].split(separator: ",", omittingEmptySubsequences: false).map(trimmed))
    }

    /// Removes the spaces at both ends, and replaces several spaces inside the text with one space. A value with a space inside remains
    /// invalid.
    private static func trimmed(_ text: Substring) -> String { text.split(separator: " ").joined(separator: " ") }

    /// Returns the hint for a byte that is not printable ASCII.
    ///
    /// - Parameters:
    ///   - rest: the line from this byte to the end.
    ///   - column: the position of this byte in the line, starting at 1.
    private static func advice(for rest: ArraySlice<UInt8>, _ column: Int, in file: FilePath) -> String {
        let file = file.string.shellQuoted
        return switch rest.first {
        case UInt8(ascii: "\r") where rest.count == 1:
            "convert the line ends to line feeds: sed -i 's/\\r$//' \(file)"
        case 0xEF where column == 1 && rest.starts(with: [0xEF, 0xBB, 0xBF]):
            "remove the byte order mark: sed -i '1s/^\\xEF\\xBB\\xBF//' \(file)"
        case UInt8(ascii: "\t"): "replace the tab with a space"
        default: "remove that byte"
        }
    }

    private static func refusal(_ context: String, hint: String? = nil) -> KeyError {
        KeyError(.badTrustScope, context, hint: hint)
    }

    /// Returns the path of the scope file for a key file. Returns nil only if no scope file exists.
    ///
    /// This method also returns the path if the scope file is a symbolic link to a missing file, or if its existence cannot be checked. The
    /// caller then fails to read the file. If the result were nil, the caller would use the key without a limit.
    static func path(beside key: FilePath) -> FilePath? {
        let path = FilePath(key.string + suffix)
        var status = stat()
        return lstat(path.string, &status) == 0 || ![ENOENT, ENOTDIR].contains(errno) ? path : nil
    }
}

extension TrustScope: CustomStringConvertible {
    /// The bundles and images that the key may sign, as a text for the user.
    public var description: String {
        switch (formats, products) {
        case (_, let products?): "bundles of \(products.map(\.text).sorted().joined(separator: ", "))"
        case ([.bundle]?, nil): "bundles"
        case ([.mcuboot]?, nil): "MCUboot images"
        case (_, nil): "bundles and MCUboot images"
        }
    }
}
