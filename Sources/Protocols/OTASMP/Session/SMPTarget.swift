import OTAFirmware
import OTASigning
import OTAUpdate

/// Checks whether a bundle is for the device: compares the bundle's manifest with the properties that the device reports over SMP.
///
/// otaflash makes this check because an SMP server receives only the MCUboot image, without the manifest. (A device with the GATT OTA
/// profile receives the manifest, and makes this check itself.)
struct SMPTarget {
    /// The bundle's manifest.
    let manifest: Manifest
    /// The bundle's image.
    let image: MCUbootImage
    /// The board's name from the answer to `SMPRequest.system(format: "i")`; nil if the device does not support this request.
    let board: String?
    /// The identity of the device.
    let info: SMPDeviceInfo
    /// The version of the image that the bundle's image replaces or has replaced; nil if the image list does not have that image.
    let previousVersion: String?

    /// Returns whether the check of a manifest needs Memfault's identity.
    static func needsInfo(_ manifest: Manifest, board: String?) -> Bool {
        guard let board, !board.isEmpty, manifest.hardware == nil else { return true }
        return !names(ofBoard: board).contains(manifest.product.text)
    }

    /// Compares the fields of the manifest with the properties of the device.
    ///
    /// - Returns: the fields that cannot be checked, by their names in the JSON form of a manifest.
    /// - Throws: `wrongImageFormat` if the image has another version than the manifest. `wrongProduct` if the product does not match the
    ///   board. `requiresNewer` if the previous version is lower than the required version.
    func uncheckedFields() throws(UpdateError) -> [String] {
        try checkImageVersion()
        var unchecked: [String] = []
        if !(try checkProduct()) { unchecked.append("product") }
        if !(try checkHardware()) { unchecked.append("hardware") }
        // The manifest is not sent to the device, so MCUboot compares only the counter in the image. If the counter in the manifest is
        // higher than this counter, neither otaflash nor the device can check the counter in the manifest.
        if manifest.securityCounter > image.securityCounter ?? 0 { unchecked.append("security_counter") }
        if !(try checkPreviousVersion()) { unchecked.append("requires") }
        if let least = manifest.minimumBattery, least > 0 { unchecked.append("minimum_battery") }
        return unchecked
    }

    /// Checks that the version in the image's header is the version in the manifest. After the update, the device reports the version in
    /// the header.
    ///
    /// Build numbers are not compared, because SemVer does not order versions by build number.
    private func checkImageVersion() throws(UpdateError) {
        let (signed, own) = (manifest.version, image.version)
        guard (signed.major, signed.minor, signed.patch) == (UInt32(own.major), UInt32(own.minor), UInt32(own.revision))
        else {
            throw UpdateError(
                .wrongImageFormat, "the bundle is version \(signed), and the image in it is version \(own)")
        }
    }

    /// Compares the manifest's product with the board and with Memfault's software type.
    ///
    /// - Returns: false if the device reports neither, or if only the software type is the product: the names contradict each other, so the
    ///   product counts as unchecked.
    /// - Throws: `wrongProduct` if neither is the product.
    func checkProduct() throws(UpdateError) -> Bool {
        guard let board, !board.isEmpty else {
            guard let type = info.softwareType else { return false }
            guard type == manifest.product.text else {
                throw UpdateError(
                    .wrongProduct,
                    "the bundle is for the product \(manifest.product), the device's software type is \(type)",
                    boardProduct: ProductName(type)?.text)
            }
            return true
        }
        let isBoard = Self.names(ofBoard: board).contains(manifest.product.text)
        if !isBoard, info.softwareType == manifest.product.text { return false }
        guard isBoard else {
            throw UpdateError(
                .wrongProduct, "the bundle is for the product \(manifest.product), the device's board is \(board)",
                boardProduct: Self.names(ofBoard: board).first.flatMap { ProductName($0)?.text })
        }
        return true
    }

    /// Compares the manifest's hardware revisions with Memfault's hardware version.
    ///
    /// - Returns: false if the manifest names revisions, and the device reports no number as its hardware version.
    /// - Throws: `wrongHardware` if the revision is another one.
    private func checkHardware() throws(UpdateError) -> Bool {
        guard let revisions = manifest.hardware else { return true }
        guard let revision = info.revision else { return false }
        guard revisions.ranges.contains(where: { $0.contains(revision) }) else {
            throw UpdateError(
                .wrongHardware, "the bundle is for hardware \(revisions), the device has revision \(revision)")
        }
        return true
    }

    /// Compares the manifest's required version with the previous version.
    ///
    /// - Returns: false if the previous version is unknown, or does not have three or four numbers.
    /// - Throws: `requiresNewer` if the previous version is lower than the required version.
    private func checkPreviousVersion() throws(UpdateError) -> Bool {
        guard let requires = manifest.requires else { return true }
        guard let previousVersion, let previous = SMPVersion(previousVersion) else { return false }
        guard previous.satisfies(requires) else {
            throw UpdateError(
                .requiresNewer,
                "the bundle requires version \(requires) to run first, the device has \(previousVersion)")
        }
        return true
    }

    /// Returns the two product names that are accepted for a board.
    ///
    /// The first name is the board's name. The second name is the board target with `_` in place of `/`, as in Zephyr's build system. Both
    /// names are without the board's revision, which Zephyr reports after `@` (`os_mgmt.c`).
    ///
    /// Example: `nrf5340dk@1.0.0/nrf5340/cpuapp` has the product names `nrf5340dk` and `nrf5340dk_nrf5340_cpuapp`.
    private static func names(ofBoard board: String) -> [String] {
        let parts = board.split(separator: "/", omittingEmptySubsequences: false)
        let name = String(parts[0].prefix { $0 != "@" })
        return [name, ([name] + parts.dropFirst().map(String.init)).joined(separator: "_")]
    }
}

/// An MCUboot version, as a device reports it: `1.2.3`, or `1.2.3.4` with a build number.
struct SMPVersion: Comparable {
    /// The major, minor, revision and build numbers.
    private let numbers: [UInt32]

    /// Parses a version with three or four numbers. Returns nil for any other text.
    init?(_ text: some StringProtocol) {
        let numbers = text.split(separator: ".", omittingEmptySubsequences: false).map { UInt32($0) }
        guard 3...4 ~= numbers.count, !numbers.contains(nil) else { return nil }
        self.numbers = numbers.compactMap { $0 } + (numbers.count == 3 ? [0] : [])
    }

    init(_ version: MCUbootImage.Version) {
        numbers = [UInt32(version.major), UInt32(version.minor), UInt32(version.revision), version.build]
    }

    /// Returns whether the versions are equal without their build numbers.
    func isSameRelease(as other: SMPVersion) -> Bool { numbers.prefix(3) == other.numbers.prefix(3) }

    /// Returns whether the version is equal to `required` or higher. The build number is not compared.
    func satisfies(_ required: RequiredVersion) -> Bool {
        !numbers.prefix(3).lexicographicallyPrecedes([required.major, required.minor, required.patch])
    }

    static func < (left: SMPVersion, right: SMPVersion) -> Bool {
        left.numbers.lexicographicallyPrecedes(right.numbers)
    }
}
