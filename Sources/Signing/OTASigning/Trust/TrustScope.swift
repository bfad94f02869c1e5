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
///     with = 0123456789abcdef
///
/// Unknown lines and values are errors. If they were ignored, a spelling mistake would remove a limit.
public struct TrustScope: Sendable, Hashable {
    /// The kind of file that the key may sign.
    public enum Format: String, Sendable, CaseIterable {
        case bundle
        /// An MCUboot image that is not in a bundle. The image has its own signature.
        case mcuboot
        /// A Nordic DFU package that is not in a bundle. Its init packets have their own signatures.
        case nordicDFU = "nordic-dfu"
    }

    static let suffix = ".scope"

    /// The path of the scope file.
    public let file: FilePath
    /// The products whose bundles the key may sign. Nil means all products.
    public let products: Set<ProductName>?
    /// The kinds of files that the key may sign. Nil means all kinds.
    public let formats: Set<Format>?

    /// The key that must also have signed each file. Otherwise this key does not count. Nil means that the key counts alone.
    public let partner: KeyID?

    /// Parses the text of a scope file.
    ///
    /// - Parameter file: the path of the scope file.
    /// - Throws: `bad-trust-scope`. The message contains the path of the file. For an error in one line, the message also contains the
    ///   line's number.
    public init(parsing text: [UInt8], of file: FilePath) throws(KeyError) {
        let settings = try SettingsText<Word>(parsing: text, of: file, code: .badTrustScope)
        products = try settings.set(of: .product, ProductName.rule) { ProductName($0) }
        formats = try settings.set(of: .format, "bundle, mcuboot or nordic-dfu") { Format(rawValue: $0) }
        partner = try settings.value(of: .with, "the 16 hex digits of a key ID") { text in
            text.count == 16 ? Hex.decode(text).flatMap { KeyID(bytes: $0) } : nil
        }
        self.file = file
        guard products != nil || formats != nil || partner != nil else {
            throw settings.refusal(
                "\(file): the file has no line 'product', 'format' or 'with', so it limits nothing")
        }
        for format in formats?.subtracting([.bundle]) ?? [] {
            let what = format == .mcuboot ? "an MCUboot image" : "a Nordic DFU package"
            guard partner == nil else {
                throw settings.refusal(
                    "\(file): 'with' excludes the format \(format.rawValue), because \(what) has one signature",
                    hint: "remove the line 'format' or the line 'with'")
            }
            guard products == nil else {
                throw settings.refusal(
                    "\(file): 'product' excludes the format \(format.rawValue), because \(what) names no product",
                    hint: "remove the line 'format' or the line 'product'")
            }
        }
    }

    /// Returns whether the key may sign a bundle with this manifest.
    public func covers(_ manifest: Manifest) -> Bool {
        formats?.contains(.bundle) ?? true && products?.contains(manifest.product) ?? true
    }

    /// Whether the key may sign MCUboot images. The value is false if `products` is not nil, because an image does not contain its product,
    /// and if `partner` is not nil, because an image has one signature.
    public var coversImages: Bool { coversFiles(of: .mcuboot) }

    /// Whether the key may sign Nordic DFU packages. The value is false for the reasons of `coversImages`.
    public var coversNordicPackages: Bool { coversFiles(of: .nordicDFU) }

    private func coversFiles(of format: Format) -> Bool {
        formats?.contains(format) ?? true && products == nil && partner == nil
    }

    /// Returns whether two keys have the same limits. Nil means no limit.
    static func isEqual(_ left: TrustScope?, _ right: TrustScope?) -> Bool {
        left?.products == right?.products && left?.formats == right?.formats && left?.partner == right?.partner
    }

    // MARK: File format

    private enum Word: String, CaseIterable { case product, format, with }

    /// Returns the path of the scope file for a key file. Returns nil only if no scope file exists.
    static func path(beside key: FilePath) -> FilePath? { FilePath(key.string + suffix).unlessAbsent }
}

extension TrustScope: CustomStringConvertible {
    /// The bundles and images that the key may sign, as a text for the user.
    public var description: String {
        let signer = partner.map { " that the key \($0) has signed, too" } ?? ""
        if let products { return "bundles of \(products.map(\.text).sorted().joined(separator: ", "))\(signer)" }
        guard partner == nil else { return "bundles\(signer)" }
        let names: [Format: String] = [
            .bundle: "bundles", .mcuboot: "MCUboot images", .nordicDFU: "Nordic DFU packages",
        ]
        let all = Format.allCases.filter { formats?.contains($0) ?? true }.compactMap { names[$0] }
        return all.joined(separator: " and ")
    }
}
