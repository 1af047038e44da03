# Installs the service and its firewall rule. Run as administrator, in the directory that holds
# edged-service.exe (WinSW) and edged-service.xml. docs/windows.md says what comes before.
#   .\install.ps1 [-Port 8767] [-NoFirewall]
param(
    [int]$Port = 8767,
    [switch]$NoFirewall
)
$ErrorActionPreference = "Stop"

# Configuration, database, identity, recorded data and logs.
$data = Join-Path $env:ProgramData "edged"
New-Item -ItemType Directory -Force -Path $data | Out-Null
# By their identifiers, because the names of accounts are translated: LocalService may change what is
# there; administrators and the system keep all; nobody else may read the record or the tokens.
icacls $data /inheritance:r /grant "*S-1-5-19:(OI)(CI)M" "*S-1-5-32-544:(OI)(CI)F" "*S-1-5-18:(OI)(CI)F" | Out-Null

& .\edged-service.exe install
if ($LASTEXITCODE -ne 0) { throw "WinSW could not install the service." }

if (-not $NoFirewall) {
    # The private network only, as ALLOWED_NETWORKS has it; Public networks stay closed.
    New-NetFirewallRule -Name "edged-mcp" -DisplayName "edged (MCP)" -Direction Inbound `
        -Action Allow -Protocol TCP -LocalPort $Port -Profile Private, Domain `
        -RemoteAddress LocalSubnet, "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16" | Out-Null
}

& .\edged-service.exe start
